// A trace as Chrome's format has it, which Perfetto opens.
//
// {"traceEvents": [...], "displayTimeUnit": "ms"}; times in microseconds. Only formatting: the
// caller that adds slices sees to it that those of one row nest. Text that is not UTF-8 is
// replaced.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace ddprun {

struct TraceRow {
  std::uint64_t process = 0;
  std::uint64_t thread = 0;
};

class TraceFile {
 public:
  using Json = nlohmann::json;

  void NameProcess(std::uint64_t process, const std::string& name) {
    Name("process_name", {process, 0}, name);
  }
  void NameThread(TraceRow row, const std::string& name) { Name("thread_name", row, name); }

  void Slice(TraceRow row, const std::string& name, const char* category, double begin, double took,
             Json args) {
    Json& event = Event("X", row, name, begin);
    event["cat"] = category;
    event["dur"] = took;
    event["args"] = std::move(args);
  }

  // At the end. `other`: what is said of the whole; null: nothing.
  std::string Text(Json other = nullptr) && {
    Json whole{{"displayTimeUnit", "ms"}};
    whole["traceEvents"] = std::move(events_);
    if (!other.is_null()) {
      whole["otherData"] = std::move(other);
    }
    return whole.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  Json& Event(const char* phase, TraceRow row, const std::string& name, double when) {
    return events_.emplace_back(Json{
        {"name", name}, {"ph", phase}, {"ts", when}, {"pid", row.process}, {"tid", row.thread}});
  }
  void Name(const char* what, TraceRow row, const std::string& name) {
    events_.push_back({{"name", what},
                       {"ph", "M"},
                       {"pid", row.process},
                       {"tid", row.thread},
                       {"args", {{"name", name}}}});
  }

  Json events_ = Json::array();
};

}  // namespace ddprun

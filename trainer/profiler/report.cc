#include "trainer/profiler/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "common/format.h"

namespace ddprun {
namespace {

constexpr std::size_t kNameWidth = 46;
constexpr std::uint64_t kFirstAsyncRow = 1'000'000;  // Above any thread's number.

struct Row {
  std::string name;
  std::uint64_t calls = 0;
  std::int64_t total = 0;
  std::int64_t self = 0;
  std::int64_t bytes = 0;
};

std::string BytesText(std::int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  return std::abs(bytes) >= 1'000'000 ? Format("%.2f MB", size / 1e6)
         : std::abs(bytes) >= 1'000   ? Format("%.2f kB", size / 1e3)
                                      : std::to_string(bytes) + " B";
}

std::vector<Row> RowsOf(std::vector<ProfiledEvent>& events) {
  // Parents before their children.
  std::sort(events.begin(), events.end(), [](const ProfiledEvent& a, const ProfiledEvent& b) {
    return std::tuple(a.thread, a.begin, -a.end) < std::tuple(b.thread, b.begin, -b.end);
  });
  std::map<std::string, Row> rows;
  std::vector<const ProfiledEvent*> open;
  for (const ProfiledEvent& event : events) {
    const std::int64_t took = event.end - event.begin;
    Row& row = rows[event.name];
    row.name = event.name;
    ++row.calls;
    row.total += took;
    row.self += took;
    row.bytes += event.bytes;
    if (event.kind == EventKind::kAsync) {
      continue;
    }
    while (!open.empty() && (open.back()->thread != event.thread || open.back()->end < event.end)) {
      open.pop_back();
    }
    if (!open.empty()) {
      rows[open.back()->name].self -= took;
    }
    open.push_back(&event);
  }
  std::vector<Row> sorted;
  for (auto& [name, row] : rows) {
    sorted.push_back(std::move(row));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Row& a, const Row& b) { return a.self > b.self; });
  return sorted;
}

// The first row whose last event is over.
std::size_t FreeRow(std::vector<std::int64_t>& ends, const ProfiledEvent& event) {
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] <= event.begin) {
      ends[i] = event.end;
      return i;
    }
  }
  ends.push_back(event.end);
  return ends.size() - 1;
}

const char* CategoryOf(EventKind kind) {
  switch (kind) {
    case EventKind::kOperator:
      return "operator";
    case EventKind::kRange:
      return "range";
    case EventKind::kAsync:
      return "communication";
  }
  return "";
}

}  // namespace

std::string OperatorTable(std::vector<ProfiledEvent> events, std::size_t rows) {
  const std::vector<Row> table = RowsOf(events);
  std::int64_t all_self = 0;
  for (const Row& row : table) {
    all_self += row.self;
  }
  std::string text = Format("%-*s %7s %11s %11s %6s %10s\n", static_cast<int>(kNameWidth), "name",
                            "calls", "total ms", "self ms", "self", "memory");
  for (std::size_t i = 0; i < std::min(rows, table.size()); ++i) {
    const Row& row = table[i];
    text += Format(
        "%-*s %7llu %11.3f %11.3f %5.1f%% %10s\n", static_cast<int>(kNameWidth),
        row.name.substr(0, kNameWidth).c_str(), static_cast<unsigned long long>(row.calls),
        static_cast<double>(row.total) / 1e6, static_cast<double>(row.self) / 1e6,
        all_self > 0 ? 100 * static_cast<double>(row.self) / static_cast<double>(all_self) : 0,
        BytesText(row.bytes).c_str());
  }
  return text;
}

std::string ChromeTrace(std::vector<ProfiledEvent> events, std::uint32_t rank) {
  std::stable_sort(events.begin(), events.end(),
                   [](const ProfiledEvent& a, const ProfiledEvent& b) {
                     return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
                   });
  const std::int64_t origin = events.empty() ? 0 : events.front().begin;
  nlohmann::json trace = nlohmann::json::array();
  const auto name = [&](const char* what, std::uint64_t row, const std::string& text) {
    trace.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", {{"name", text}}}});
  };
  name("process_name", 0, "rank " + std::to_string(rank));
  std::set<std::uint64_t> threads;
  std::vector<std::int64_t> async_ends;
  for (const ProfiledEvent& event : events) {
    std::uint64_t row = event.thread;
    if (event.kind == EventKind::kAsync) {
      const std::size_t before = async_ends.size();
      row = kFirstAsyncRow + FreeRow(async_ends, event);
      if (async_ends.size() > before) {
        name("thread_name", row, "communication");
      }
    } else if (threads.insert(row).second) {
      name("thread_name", row, "thread " + std::to_string(row));
    }
    trace.push_back({{"name", event.name},
                     {"cat", CategoryOf(event.kind)},
                     {"ph", "X"},
                     {"ts", static_cast<double>(event.begin - origin) / 1e3},
                     {"dur", static_cast<double>(event.end - event.begin) / 1e3},
                     {"pid", rank},
                     {"tid", row},
                     {"args", {{"bytes", event.bytes}}}});
  }
  const nlohmann::json whole = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(trace)}};
  // Names need not be UTF-8.
  return whole.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun

#include <string_view>

#include "rendezvous/wire/convert.h"
#include "rendezvous/wire/wire_fields.h"
#include "rendezvous/wire/wire_parts.h"

namespace ddprun {
namespace {

constexpr int kMaxRuns = 1000;

template <class Value, class Wire, std::size_t kSize>
Wire ToWire(const Names<Value, Wire, kSize>& names, Value value) {
  return std::ranges::find(names, value, &std::pair<Value, Wire>::first)->second;
}

void Write(const RunStatus& run, v1::RunStatus* wire) {
  WriteFields(kRunStatusFields, run, wire);
  for (const NodeStatus& node : run.nodes) {
    WriteFields(kNodeStatusFields, node, wire->add_nodes());
  }
  wire->set_more_nodes(run.more_nodes);
  for (const Startup& startup : run.startups) {
    WriteFields(kStartupFields, startup, wire->add_startups());
  }
  for (const PastNotice& notice : run.notices) {
    v1::PastNotice* const to = wire->add_notices();
    to->set_age_ms(notice.age.count());
    to->set_level(ToWire(kNoticeLevel, notice.level));
    to->set_text(notice.text.substr(0, kMaxTextBytes));
  }
}

template <class Table, class Status>
void ReadStatus(const Table& table, const std::string& path, const WireMessage& wire, Reader& in,
                Status& status) {
  ReadFields(table, path, wire, in, status);
  ForEach(table, [&](const auto& row) {
    const auto& value = status.*row.member;
    if (row.empty == Empty::kNever && value == std::decay_t<decltype(value)>{}) {
      in.Refuse(path + row.name, "is empty");
    }
  });
}

RunStatus Read(const v1::RunStatus& wire, Reader& in) {
  RunStatus run;
  ReadStatus(kRunStatusFields, "", wire, in, run);
  if (wire.nodes_size() > static_cast<int>(kMaxListedNodes) ||
      wire.startups_size() > static_cast<int>(kMostStartups) ||
      wire.notices_size() > static_cast<int>(kMaxPastNotices)) {
    in.Refuse("nodes, startups or notices", "are too many");
    return run;
  }
  for (const v1::NodeStatus& node : wire.nodes()) {
    ReadStatus(kNodeStatusFields, "nodes.", node, in, run.nodes.emplace_back());
  }
  run.more_nodes = wire.more_nodes();
  for (const v1::Startup& startup : wire.startups()) {
    ReadStatus(kStartupFields, "startups.", startup, in, run.startups.emplace_back());
  }
  for (const v1::PastNotice& notice : wire.notices()) {
    run.notices.push_back({in.Duration("notices.age", notice.age_ms()),
                           in.Enum("notices.level", kNoticeLevel, notice.level()),
                           in.Text("notices.text", notice.text(), kMaxTextBytes)});
  }
  return run;
}

}  // namespace

void ToProto(const std::vector<RunStatus>& runs, v1::DescribeReply* wire) {
  for (const RunStatus& run : runs) {
    Write(run, wire->add_runs());
  }
}

Result<std::vector<RunStatus>> StatusFromProto(const v1::DescribeReply& wire) {
  Reader in(kServersAhead);
  std::vector<RunStatus> runs;
  if (wire.runs_size() > kMaxRuns) {
    in.Refuse("runs", "are too many");
  } else {
    for (const v1::RunStatus& run : wire.runs()) {
      runs.push_back(Read(run, in));
    }
  }
  if (!in.ok()) {
    return in.error();
  }
  return runs;
}

void ToProto(const ControlRequest& request, v1::ControlRequest* wire) {
  wire->set_run_id(request.run_id);
  wire->set_verb(ToWire(kControlVerb, request.verb));
  wire->set_node(request.node);
  wire->set_token(request.token);
}

Result<ControlRequest> ControlFromProto(const v1::ControlRequest& wire) {
  Reader in(kServersAhead);
  ControlRequest request;
  request.run_id = in.OptionalName("run_id", wire.run_id());
  request.verb = in.Enum("verb", kControlVerb, wire.verb());
  request.node = request.verb == ControlVerb::kDrain ? in.Name("node", wire.node())
                                                     : in.OptionalName("node", wire.node());
  request.token = in.Text("token", wire.token(), kMaxTokenBytes);
  if (!in.ok()) {
    return in.error();
  }
  return request;
}

}  // namespace ddprun

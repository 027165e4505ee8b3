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
    v1::NodeStatus* const to = wire->add_nodes();
    WriteFields(kNodeStatusFields, node, to);
    Write(node.rank_details, to->mutable_rank_details());
    WriteFacts(node.facts, to->mutable_facts());
  }
  wire->set_more_nodes(run.more_nodes);
  for (const Startup& startup : run.startups) {
    WriteFields(kStartupFields, startup, wire->add_startups());
  }
  for (const RunEvent& event : run.events) {
    Write(event, wire->add_events());
  }
  for (const CauseTotal& total : run.totals) {
    WriteFields(kCauseTotalFields, total, wire->add_totals());
  }
  for (const TrainingPoint& point : run.training) {
    Write(point, wire->add_training());
  }
}

RunStatus Read(const v1::RunStatus& wire, Reader& in) {
  RunStatus run;
  ReadStatusFields(kRunStatusFields, "", wire, in, run);
  if (wire.nodes_size() > static_cast<int>(kMaxListedNodes) ||
      wire.startups_size() > static_cast<int>(kMostStartups) ||
      wire.totals_size() > static_cast<int>(History::kMostCauses) ||
      wire.training_size() > static_cast<int>(kMostTrainingPoints)) {
    in.Refuse("nodes, startups, totals or training", "are too many");
    return run;
  }
  for (const v1::NodeStatus& node : wire.nodes()) {
    NodeStatus& read = run.nodes.emplace_back();
    ReadStatusFields(kNodeStatusFields, "nodes.", node, in, read);
    read.rank_details = Read(node.rank_details(), std::min(read.workers, kMaxWorkers), in);
    read.facts = ReadFacts(node.facts(), in);
  }
  run.more_nodes = wire.more_nodes();
  for (const v1::Startup& startup : wire.startups()) {
    ReadStatusFields(kStartupFields, "startups.", startup, in, run.startups.emplace_back());
  }
  run.events = ReadEvents(wire.events(), kMostShownEvents, in);
  for (const v1::CauseTotal& total : wire.totals()) {
    ReadStatusFields(kCauseTotalFields, "totals.", total, in, run.totals.emplace_back());
  }
  for (const v1::TrainingPoint& point : wire.training()) {
    run.training.push_back(Read(point, in));
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

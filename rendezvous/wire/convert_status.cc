#include <string_view>

#include "rendezvous/wire/convert.h"
#include "rendezvous/wire/wire_parts.h"

namespace ddprun {
namespace {

constexpr int kMaxRuns = 1000;

template <class Value, class Wire, std::size_t kSize>
Wire ToWire(const Names<Value, Wire, kSize>& names, Value value) {
  return std::ranges::find(names, value, &std::pair<Value, Wire>::first)->second;
}

std::string Cut(const std::string& text) {
  return text.substr(0, kMaxTextBytes);
}

void Write(const NodeStatus& node, v1::NodeStatus* wire) {
  wire->set_node(node.node);
  wire->set_host(node.host);
  wire->set_incarnation(node.incarnation.value);
  wire->set_state(node.state);
  wire->set_last_seen_ms(node.last_seen.count());
  wire->set_workers(node.workers);
  wire->set_in_world(node.in_world);
  wire->set_first_rank(node.first_rank);
  wire->set_step(node.step);
  wire->set_phase(node.phase);
  wire->set_late(node.late);
}

void Write(const RunStatus& run, v1::RunStatus* wire) {
  wire->set_run_id(run.run_id);
  wire->set_phase(run.phase);
  wire->set_phase_since_ms(run.phase_since.count());
  wire->set_generation(run.generation.value);
  wire->set_group_size(run.group_size);
  wire->set_world_size(run.world_size);
  wire->set_min_nodes(run.min_nodes);
  wire->set_max_nodes(run.max_nodes);
  wire->set_restarts_used(run.restarts_used);
  wire->set_max_restarts(run.max_restarts);
  wire->set_requeues(run.requeues);
  wire->set_job_ends_unix(run.job_ends_unix);
  wire->set_waits_for(Cut(run.waits_for));
  wire->set_outcome(Cut(run.outcome));
  wire->set_exit_code(static_cast<std::uint32_t>(run.exit_code));
  for (const NodeStatus& node : run.nodes) {
    Write(node, wire->add_nodes());
  }
  wire->set_more_nodes(run.more_nodes);
  for (const PastNotice& notice : run.notices) {
    v1::PastNotice* const to = wire->add_notices();
    to->set_age_ms(notice.age.count());
    to->set_level(ToWire(kNoticeLevel, notice.level));
    to->set_text(Cut(notice.text));
  }
}

NodeStatus Read(const v1::NodeStatus& wire, Reader& in) {
  NodeStatus node;
  node.node = in.Name("nodes.node", wire.node());
  node.host = in.OptionalName("nodes.host", wire.host());
  node.incarnation.value = wire.incarnation();
  node.state = in.Name("nodes.state", wire.state());
  node.last_seen = in.Duration("nodes.last_seen", wire.last_seen_ms());
  node.workers = wire.workers();
  node.in_world = wire.in_world();
  node.first_rank = wire.first_rank();
  node.step = wire.step();
  node.phase = in.OptionalName("nodes.phase", wire.phase());
  node.late = wire.late();
  return node;
}

RunStatus Read(const v1::RunStatus& wire, Reader& in) {
  RunStatus run;
  run.run_id = in.Name("run_id", wire.run_id());
  run.phase = in.Name("phase", wire.phase());
  run.phase_since = in.Duration("phase_since", wire.phase_since_ms());
  run.generation.value = in.Count("generation", wire.generation());
  run.group_size = wire.group_size();
  run.world_size = wire.world_size();
  run.min_nodes = wire.min_nodes();
  run.max_nodes = wire.max_nodes();
  run.restarts_used = wire.restarts_used();
  run.max_restarts = wire.max_restarts();
  run.requeues = wire.requeues();
  run.job_ends_unix =
      in.Number<std::int64_t>("job_ends_unix", wire.job_ends_unix(), 0, kMaxUnixMs / 1000);
  run.waits_for = in.Text("waits_for", wire.waits_for(), kMaxTextBytes);
  run.outcome = in.Text("outcome", wire.outcome(), kMaxTextBytes);
  run.exit_code = static_cast<int>(in.Number<std::uint32_t>("exit_code", wire.exit_code(), 0, 255));
  if (wire.nodes_size() > static_cast<int>(kMaxListedNodes) ||
      wire.notices_size() > static_cast<int>(kMaxPastNotices)) {
    in.Refuse("nodes or notices", "are too many");
    return run;
  }
  for (const v1::NodeStatus& node : wire.nodes()) {
    run.nodes.push_back(Read(node, in));
  }
  run.more_nodes = wire.more_nodes();
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

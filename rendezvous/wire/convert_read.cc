#include <algorithm>
#include <chrono>
#include <string_view>

#include "rendezvous/messages/lease.h"
#include "rendezvous/wire/convert.h"
#include "rendezvous/wire/wire_fields.h"
#include "rendezvous/wire/wire_parts.h"

namespace ddprun {
namespace {

// Of as many nodes as there may be, and some. A node waits for answers by the lease that it gets.
constexpr Duration kMostLease{1'000'000};
constexpr Duration kMostPoll = kMostLease / kPollsPerLease;

Endpoint Read(const std::string& name, const v1::Endpoint& wire, Reader& in) {
  return {
      in.OptionalName(name + ".host", wire.host()),
      static_cast<std::uint16_t>(in.Number<std::uint32_t>(name + ".port", wire.port(), 0, 65535))};
}

}  // namespace

Endpoint Read(const v1::Endpoint& wire, Reader& in) {
  return Read("store", wire, in);
}

RunSpec Read(const v1::RunSpec& wire, Reader& in) {
  RunSpec spec;
  ReadFields(kSpecFields, "spec.", wire, in, spec);
  in.Number<std::uint32_t>("spec.max_nodes", spec.max_nodes, 1, kMaxNodes);
  in.Number<std::uint32_t>("spec.min_nodes", spec.min_nodes, 1, spec.max_nodes);
  return spec;
}

namespace {

Placement Read(const v1::Placement& wire, Reader& in) {
  Placement placement;
  placement.term = in.Term("placement.term", wire.term());
  placement.generation = in.Generation("placement.generation", wire.generation());
  placement.world_id.value = wire.world_id();
  placement.group_size =
      in.Number<std::uint32_t>("placement.group_size", wire.group_size(), 1, kMaxNodes);
  placement.group_rank = in.Number<std::uint32_t>("placement.group_rank", wire.group_rank(), 0,
                                                  placement.group_size - 1);
  placement.world_size =
      in.Number<std::uint32_t>("placement.world_size", wire.world_size(), 1, kMaxWorld);
  placement.first_rank = in.Number<std::uint32_t>("placement.first_rank", wire.first_rank(), 0,
                                                  placement.world_size - 1);
  placement.role_world_size = in.Number<std::uint32_t>(
      "placement.role_world_size", wire.role_world_size(), 1, placement.world_size);
  placement.role_first_rank = in.Number<std::uint32_t>(
      "placement.role_first_rank", wire.role_first_rank(), 0, placement.role_world_size - 1);
  placement.store = Read(wire.store(), in);
  placement.restarts_used = wire.restarts_used();
  return placement;
}

ExitStatus ReadStatus(const v1::WorkerFailure& wire, Reader& in) {
  switch (wire.status_case()) {
    case v1::WorkerFailure::kExitCode:
      return Exited{static_cast<int>(
          in.Number<std::uint32_t>("failure.exit_code", wire.exit_code(), 0, 255))};
    case v1::WorkerFailure::kSignal:
      return Killed{static_cast<int>(
                        in.Number<std::uint32_t>("failure.signal", wire.signal(), 1, kMaxSignal)),
                    wire.core_dumped()};
    case v1::WorkerFailure::STATUS_NOT_SET:
      break;
  }
  in.Refuse("failure.status", "is missing");
  return Exited{};
}

WorkerFailure Read(const v1::WorkerFailure& wire, Reader& in) {
  WorkerFailure failure;
  failure.rank = in.Number<std::uint32_t>("failure.rank", wire.rank(), 0, kMaxWorld - 1);
  failure.local_rank =
      in.Number<std::uint32_t>("failure.local_rank", wire.local_rank(), 0, kMaxWorkers - 1);
  failure.pid = in.Number<std::int64_t>("failure.pid", wire.pid(), 0, INT32_MAX);
  failure.status = ReadStatus(wire, in);
  failure.said_hello = wire.said_hello();
  failure.stopped_by_us = wire.stopped_by_us();
  failure.after = in.Duration("failure.after", wire.after_ms());
  failure.recorded = wire.recorded();
  failure.host = in.OptionalName("failure.host", wire.host());
  failure.last_lines = in.Text("failure.last_lines", wire.last_lines(), kMaxLastLines);
  failure.details.unix_ms =
      in.Number<std::int64_t>("failure.unix_ms", wire.unix_ms(), 0, kMaxUnixMs);
  failure.details.error_file = in.Text("failure.error_file", wire.error_file(), kMaxPath);
  failure.details.message =
      in.Text("failure.error_message", wire.error_message(), kMaxErrorMessage);
  failure.details.traceback = in.Text("failure.traceback", wire.traceback(), kMaxTraceback);
  failure.hang = in.Text("failure.hang", wire.hang(), kMaxHangText);
  failure.nobody_lags = wire.nobody_lags();
  return failure;
}

}  // namespace

Finish Read(const v1::Finish& wire, Reader& in) {
  Finish finish;
  finish.ending = in.Enum("finish.ending", kEnding, wire.ending());
  finish.exit_code =
      static_cast<int>(in.Number<std::uint32_t>("finish.exit_code", wire.exit_code(), 0, 255));
  if (finish.exit_code == 0 && finish.ending != Ending::kSucceeded) {
    in.Refuse("finish.exit_code", "is 0, which says success, where there was none");
  }
  finish.text = in.Text("finish.text", wire.text(), kMaxTextBytes);
  if (wire.has_root()) {
    finish.root = Read(wire.root(), in);
  }
  finish.gave_up = wire.gave_up();
  return finish;
}

namespace {

ProgressGroup Read(const v1::ProgressGroup& wire, Reader& in) {
  ProgressGroup group;
  group.step = wire.step();
  group.phase = in.OptionalName("progress_group.phase", wire.phase());
  group.first_rank =
      in.Number<std::uint32_t>("progress_group.first_rank", wire.first_rank(), 0, kMaxWorld - 1);
  group.count = in.Number<std::uint32_t>("progress_group.count", wire.count(), 1, kMaxWorkers);
  group.late = in.Number<std::uint32_t>("progress_group.late", wire.late(), 0, group.count);
  group.allowed = in.Duration("progress_group.allowed", wire.allowed_ms());
  group.source = static_cast<ProgressSource>(in.Number<std::uint8_t>(
      "progress_group.source", wire.source(), 0, static_cast<int>(ProgressSource::kCollectives)));
  return group;
}

WaitReason Read(const v1::Wait& wire, Reader& in) {
  WaitReason reason;
  reason.what = in.Enum("wait.what", kWaitFor, wire.what());
  reason.have = in.Number<std::uint32_t>("wait.have", wire.have(), 0, kMaxNodes);
  reason.need = in.Number<std::uint32_t>("wait.need", wire.need(), 0, kMaxNodes);
  reason.want = in.Number<std::uint32_t>("wait.want", wire.want(), 0, kMaxNodes);
  if (wire.missing_size() > static_cast<int>(kMaxNamed)) {
    in.Refuse("wait.missing", "names more than " + std::to_string(kMaxNamed) + " nodes");
    return reason;
  }
  for (const std::string& node : wire.missing()) {
    reason.missing.push_back(in.Name("wait.missing", node));
  }
  if (wire.unfit_size() > static_cast<int>(kMaxNamed)) {
    in.Refuse("wait.unfit", "names more than " + std::to_string(kMaxNamed) + " nodes");
    return reason;
  }
  for (const std::string& node : wire.unfit()) {
    reason.unfit.push_back(in.Text("wait.unfit", node, kMaxNamedUnfit));
  }
  if (wire.has_remaining_ms()) {
    reason.remaining = in.Duration("wait.remaining", wire.remaining_ms());
  }
  reason.losses = wire.losses();
  reason.span = in.Duration("wait.span", wire.span_ms());
  return reason;
}

Directive ReadDirective(std::string_view field, const v1::Directive& wire, Reader& in) {
  switch (wire.kind_case()) {
    case v1::Directive::kWait:
      return Wait{Read(wire.wait(), in)};
    case v1::Directive::kRun:
      if (!wire.run().has_placement()) {
        in.Refuse("run.placement", "is missing");
        return Wait{};
      }
      return Run{Read(wire.run().placement(), in)};
    case v1::Directive::kStop:
      return Stop{in.Generation("stop.generation", wire.stop().generation()),
                  {wire.stop().world_id()},
                  in.Enum("stop.cause", kStopCause, wire.stop().cause())};
    case v1::Directive::kFinish:
      return Read(wire.finish(), in);
    case v1::Directive::KIND_NOT_SET:
      break;
  }
  in.Refuse(field, "is missing or of an unknown kind");
  return Wait{};
}

StartTimings Read(const v1::StartTimings& wire, Reader& in) {
  StartTimings timings;
  if (wire.has_detect_ms()) {
    timings.detect = in.Duration("start_timings.detect", wire.detect_ms());
  }
  if (wire.has_started_ms()) {
    timings.started = in.Duration("start_timings.started", wire.started_ms());
  }
  if (wire.has_restored_ms()) {
    timings.restored = in.Duration("start_timings.restored", wire.restored_ms());
  }
  if (wire.has_stepped_ms()) {
    timings.stepped = in.Duration("start_timings.stepped", wire.stepped_ms());
  }
  return timings;
}

void ReadWorkers(const v1::SyncRequest& wire, Reader& in, NodeReport& report) {
  report.hosting = in.Enum("hosting", kHosting, wire.hosting());
  if (wire.has_placement()) {
    report.placement = Read(wire.placement(), in);
  }
  report.outcome = in.Enum("outcome", kOutcome, wire.outcome());
  if (wire.failures_size() > static_cast<int>(kMaxFailures)) {
    in.Refuse("failures", "has more than " + std::to_string(kMaxFailures) + " entries");
    return;
  }
  for (const v1::WorkerFailure& failure : wire.failures()) {
    report.failures.push_back(Read(failure, in));
  }
  report.spawn_failure = in.Text("spawn_failure", wire.spawn_failure(), kMaxTextBytes);
  report.floor = in.Generation("floor", wire.floor());
  report.restarts_used = wire.restarts_used();
  report.unkillable = in.Number<std::uint32_t>("unkillable", wire.unkillable(), 0, kMaxWorkers);
  if (wire.has_hung_rank()) {
    report.hung_rank = in.Number<std::uint32_t>("hung_rank", wire.hung_rank(), 0, kMaxWorld - 1);
  }
  report.progress = wire.progress();
  report.start_timings = Read(wire.start_timings(), in);
  report.rank_details = Read(wire.rank_details(), report.workers, in);
  report.ended_well = in.Number<std::uint32_t>("ended_well", wire.ended_well(), 0, report.workers);
  if (wire.progress_groups_size() > static_cast<int>(kMaxProgressGroups)) {
    in.Refuse("progress_groups",
              "has more than " + std::to_string(kMaxProgressGroups) + " entries");
    return;
  }
  for (const v1::ProgressGroup& group : wire.progress_groups()) {
    report.progress_groups.push_back(Read(group, in));
  }
}

}  // namespace

Result<NodeReport> ReportFromProto(const v1::SyncRequest& wire) {
  return ReportFromProtoAt(wire, LatestUnixMilliseconds());
}

Result<NodeReport> ReportFromProtoAt(const v1::SyncRequest& wire, std::int64_t unix_ms) {
  if (wire.protocol() != kProtocol) {
    return OtherProtocol(wire.protocol());
  }
  Reader in(unix_ms, kNodesAhead);
  NodeReport report;
  report.run_id = in.Name("run_id", wire.run_id());
  report.node = in.Name("node", wire.node());
  report.incarnation.value = wire.incarnation();
  report.former_incarnation.value = wire.former_incarnation();
  report.sequence = wire.sequence();
  report.term = in.Term("term", wire.term());
  report.beat = in.Number<std::int64_t>("beat", wire.beat(), 0, INT64_MAX);
  if (wire.has_echo()) {
    report.echo = ReadDirective("echo", wire.echo(), in);
  }
  report.spec = Read(wire.spec(), in);
  report.host = in.Name("host", wire.host());
  if (wire.has_node_rank()) {
    report.node_rank = in.Number<std::uint32_t>("node_rank", wire.node_rank(), 0, kMaxNodes - 1);
  }
  report.workers = in.Number<std::uint32_t>("workers", wire.workers(), 1, kMaxWorkers);
  report.first_local_rank =
      in.Number<std::uint32_t>("first_local_rank", wire.first_local_rank(), 0, kMaxWorkers - 1);
  report.role = in.OptionalName("role", wire.role());
  report.store = Read(wire.store(), in);
  ReadWorkers(wire, in, report);
  report.leaving = in.Enum("leaving", kLeaving, wire.leaving());
  report.starting = wire.starting();
  report.saving = wire.saving();
  report.checking = wire.checking();
  report.unfit = in.Text("unfit", wire.unfit(), kMaxUnfit);
  report.facts = ReadFacts(wire.facts(), in);
  report.requeues = wire.requeues();
  report.job_ends_unix =
      in.Number<std::int64_t>("job_ends_unix", wire.job_ends_unix(), 0, kMaxUnixMs / 1000);
  report.addresses = in.Addresses("addresses", wire.addresses(), kMaxAddressesBytes);
  report.page = Read("page", wire.page(), in);
  report.events_seen = ReadMark("events_seen", wire.events_seen(), in);
  report.events = ReadEvents(wire.events(), kMostEventsAtOnce, in);
  if (!in.ok()) {
    return in.error();
  }
  return report;
}

Result<SyncReply> ReplyFromProto(const v1::SyncReply& wire) {
  Reader in(kServersAhead);
  SyncReply reply;
  reply.directive = ReadDirective("directive", wire.directive(), in);
  reply.beat = in.Number<std::int64_t>("beat", wire.beat(), 0, INT64_MAX);
  reply.lease = Duration(in.Number<std::int64_t>("lease", wire.lease_ms(), 0, kMostLease.count()));
  reply.poll_period =
      Duration(in.Number<std::int64_t>("poll_period", wire.poll_period_ms(), 0, kMostPoll.count()));
  reply.term = in.Term("term", wire.term());
  reply.peers = in.Addresses("peers", wire.peers(), kMaxPeersBytes);
  reply.events = ReadEvents(wire.events(), kMostEventsAtOnce, in);
  reply.events_kept = ReadMark("events_kept", wire.events_kept(), in);
  if (!in.ok()) {
    return in.error();
  }
  return reply;
}

}  // namespace ddprun

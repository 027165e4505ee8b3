// The fields of every message, for both directions (wire_fields.h); for this folder only.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>

#include "rendezvous/core/ended_run.h"
#include "rendezvous/core/status.h"
#include "rendezvous/messages/lease.h"
#include "rendezvous/messages/messages.h"
#include "rendezvous/messages/operator_request.h"
#include "rendezvous/transport.h"
#include "rendezvous/wire/wire_fields.h"

namespace ddprun {

// Of as many nodes as there may be, and some. A node waits for answers by the lease that it gets.
inline constexpr Duration kMostLease{1'000'000};
inline constexpr Duration kMostPoll = kMostLease / kPollsPerLease;
inline constexpr std::size_t kLongestPhase = 64;  // As proto/notify.h takes it.

template <class Io, class T>
using Of = typename Io::template Of<T>;

// ---- A node's workers ----
template <class Io>
void Fields(const Io& io, Of<Io, Endpoint>& endpoint) {
  io("host", endpoint.host);
  io.Number("port", endpoint.port, 0, 65535);
}

template <class Io>
void Fields(const Io& io, Of<Io, RunSpec>& spec) {
  io.Rows(kSpecFields, spec);
  io.Number("max_nodes", spec.max_nodes, 1, kMaxNodes);
  io.Number("min_nodes", spec.min_nodes, 1, spec.max_nodes);
}

template <class Io>
void Fields(const Io& io, Of<Io, Placement>& placement) {
  io.Possible("term", placement.term);
  io.Possible("generation", placement.generation);
  io("world_id", placement.world_id);
  io.Number("group_size", placement.group_size, 1, kMaxNodes);
  io.Number("group_rank", placement.group_rank, 0, placement.group_size - 1);
  io.Number("world_size", placement.world_size, 1, kMaxWorld);
  io.Number("first_rank", placement.first_rank, 0, placement.world_size - 1);
  io.Number("role_world_size", placement.role_world_size, 1, placement.world_size);
  io.Number("role_first_rank", placement.role_first_rank, 0, placement.role_world_size - 1);
  io.Message("store", placement.store);
  io("restarts_used", placement.restarts_used);
}

template <class Io>
void Fields(const Io& io, Of<Io, ExitStatus>& status) {
  if constexpr (Io::kReads) {
    if (io.Has("signal")) {
      status = Killed{};
    }
    io.Check(io.Has("signal") || io.Has("exit_code"), "status", "is missing");
  }
  if (auto* const exited = std::get_if<Exited>(&status)) {
    io("exit_code", exited->code);
  } else if (auto* const killed = std::get_if<Killed>(&status)) {
    io.Number("signal", killed->signal, 1, kMaxSignal);
    io("core_dumped", killed->core_dumped);
  }
}

template <class Io>
void Fields(const Io& io, Of<Io, WorkerFailure>& failure) {
  io.Number("rank", failure.rank, 0, kMaxWorld - 1);
  io.Number("local_rank", failure.local_rank, 0, kMaxWorkers - 1);
  io.Number("pid", failure.pid, 0, INT32_MAX);
  Fields(io, failure.status);
  io("said_hello", failure.said_hello);
  io("stopped_by_us", failure.stopped_by_us);
  io("after", failure.after);
  io("recorded", failure.recorded);
  io("host", failure.host);
  io.Text("last_lines", failure.last_lines, kMaxLastLines, Keep::kTail);
  io.Number("unix_ms", failure.details.unix_ms, 0, kMaxUnixMs);
  io.Text("error_file", failure.details.error_file, kMaxPath);
  io.Text("error_message", failure.details.message, kMaxErrorMessage);
  io.Text("traceback", failure.details.traceback, kMaxTraceback, Keep::kTail);
  io.Text("hang", failure.hang, kMaxHangText);
  io("nobody_lags", failure.nobody_lags);
}

template <class Io>
void Fields(const Io& io, Of<Io, ProgressGroup>& group) {
  io("step", group.step);
  io("phase", group.phase);
  io.Number("first_rank", group.first_rank, 0, kMaxWorld - 1);
  io.Number("count", group.count, 1, kMaxWorkers);
  io.Number("late", group.late, 0, group.count);
  io("allowed", group.allowed);
  io.Number("source", group.source, 0, static_cast<int>(ProgressSource::kCollectives));
}

template <class Io>
void Fields(const Io& io, Of<Io, StartTimings>& timings) {
  io("detect", timings.detect);
  io("started", timings.started);
  io("restored", timings.restored);
  io("stepped", timings.stepped);
}

// ---- A node seen from near ----
template <class Io>
void Fields(const Io& io, Of<Io, TrainingPoint>& point) {
  io("step", point.step);
  io("loss", point.loss);
  io("samples_per_s", point.samples_per_s);
  io("checkpoint", point.checkpoint);
}

template <class Io>
void Fields(const Io& io, Of<Io, HostFact>& fact) {
  io.Name("name", fact.name, kMaxFactName);
  io.Text("value", fact.value, kMaxFactValue);
  io("bad", fact.bad);
}

// Columns, one value for each rank in each.
inline void WriteRanks(const std::vector<RankDetail>& ranks, v1::RankDetails& wire) {
  const auto word = [](auto value) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(value.count(), 0, UINT32_MAX));
  };
  for (const RankDetail& rank : ranks) {
    wire.add_state(static_cast<std::uint32_t>(rank.state));
    wire.add_step(rank.step);
    wire.add_since_ms(word(rank.since));
    wire.add_step_time_us(word(rank.step_time));
    wire.add_phase(rank.phase);
    wire.add_work_us(word(rank.work));
  }
}

// False: the columns do not fit, or a value cannot be.
inline bool ReadRanks(const v1::RankDetails& wire, std::uint32_t workers,
                      std::vector<RankDetail>& ranks) {
  const int count = wire.state_size();
  if (count > static_cast<int>(workers) || wire.step_size() != count ||
      wire.since_ms_size() != count || wire.step_time_us_size() != count ||
      wire.phase_size() != count || wire.work_us_size() != count) {
    return false;
  }
  for (int i = 0; i < count; ++i) {
    ranks.push_back({static_cast<RankState>(wire.state(i)), wire.step(i),
                     Duration(wire.since_ms(i)), std::chrono::microseconds(wire.step_time_us(i)),
                     wire.phase(i), std::chrono::microseconds(wire.work_us(i))});
  }
  return true;
}

// Of a node with so many workers.
template <class Io>
void Fields(const Io& io, Of<Io, RankDetails>& details, std::uint32_t workers = kMaxWorkers) {
  if constexpr (Io::kReads) {
    const auto& wire = io.template As<v1::RankDetails>();
    const auto in = [](const auto& column, std::size_t most) {
      return std::ranges::all_of(column, [most](std::uint32_t value) { return value <= most; });
    };
    io.Check(in(wire.state(), static_cast<std::size_t>(RankState::kEnded)), "state",
             "is not known");
    io.Check(in(wire.phase(), static_cast<std::size_t>(wire.phases_size())), "phase",
             "is none of the phases");
    io.Check(ReadRanks(wire, workers, details.ranks), "", "has columns that do not fit");
  } else {
    WriteRanks(details.ranks, io.template As<v1::RankDetails>());
  }
  io.Names("phases", details.phases, kMostPhases, kLongestPhase);
  io.Message("training", details.training);
  io("steps", details.steps);
}

// ---- Events ----
template <class Io>
void Fields(const Io& io, Of<Io, RunEvent>& event) {
  io.Rows(kRunEventFields, event);
  io.Enum("level", event.level, kNoticeLevel);
}

template <class Io>
void Fields(const Io& io, Of<Io, EventMark>& mark) {
  io.Possible("term", mark.term);
  io.Number("number", mark.number, 0, kMaxCount);
}

// ---- Directives ----
template <class Io>
void Fields(const Io& io, Of<Io, Wait>& wait) {
  auto& reason = wait.reason;
  io.Enum("what", reason.what, kWaitFor);
  io.Number("have", reason.have, 0, kMaxNodes);
  io.Number("need", reason.need, 0, kMaxNodes);
  io.Number("want", reason.want, 0, kMaxNodes);
  io.Names("missing", reason.missing, kMaxNamed);
  io.Texts("unfit", reason.unfit, kMaxNamed, kMaxNamedUnfit);
  io("remaining", reason.remaining);
  io("losses", reason.losses);
  io("span", reason.span);
}

template <class Io>
void Fields(const Io& io, Of<Io, Run>& run) {
  io.Check(io.Has("placement"), "placement", "is missing");
  io.Message("placement", run.placement);
}

template <class Io>
void Fields(const Io& io, Of<Io, Stop>& stop) {
  io.Possible("generation", stop.generation);
  io("world_id", stop.world_id);
  io.Enum("cause", stop.cause, kStopCause);
}

template <class Io>
void Fields(const Io& io, Of<Io, Finish>& finish) {
  io.Enum("ending", finish.ending, kEnding);
  io("exit_code", finish.exit_code);
  io.Check(finish.exit_code != 0 || finish.ending == Ending::kSucceeded, "exit_code",
           "is 0, which says success, where there was none");
  io.Text("text", finish.text, kMaxTextBytes);
  io.Message("root", finish.root, "failure");
  io("gave_up", finish.gave_up);
}

template <class Io>
void Fields(const Io& io, Of<Io, Directive>& directive) {
  const bool known = io.template Choice<Wait>("wait", directive) ||
                     io.template Choice<Run>("run", directive) ||
                     io.template Choice<Stop>("stop", directive) ||
                     io.template Choice<Finish>("finish", directive);
  io.Check(known, "", "is missing or of an unknown kind");
}

// ---- A call of a node, and its answer ----
template <class Io>
void WorkersFields(const Io& io, Of<Io, NodeReport>& report) {
  io.Enum("hosting", report.hosting, kHosting);
  io.Message("placement", report.placement);
  io.Enum("outcome", report.outcome, kOutcome);
  io.List("failures", report.failures, kMaxFailures, "failure");
  io.Text("spawn_failure", report.spawn_failure, kMaxTextBytes);
  io.Possible("floor", report.floor);
  io("restarts_used", report.restarts_used);
  io.Number("unkillable", report.unkillable, 0, kMaxWorkers);
  io.Number("hung_rank", report.hung_rank, 0, kMaxWorld - 1);
  io("progress", report.progress);
  io.Message("start_timings", report.start_timings);
  io.Message("rank_details", report.rank_details, "rank_details", report.workers);
  io.Number("ended_well", report.ended_well, 0, report.workers);
  io.List("progress_groups", report.progress_groups, kMaxProgressGroups, "progress_group");
  io.Enum("leaving", report.leaving, kLeaving);
  io("starting", report.starting);
  io("saving", report.saving);
}

template <class Io>
void Fields(const Io& io, Of<Io, NodeReport>& report) {
  io.Name("run_id", report.run_id);
  io.Name("node", report.node);
  io("incarnation", report.incarnation);
  io("former_incarnation", report.former_incarnation);
  io("sequence", report.sequence);
  io.Possible("term", report.term);
  io.Number("beat", report.beat, 0, INT64_MAX);
  io.Message("echo", report.echo);
  io.Message("spec", report.spec);
  io.Name("host", report.host);
  io.Number("node_rank", report.node_rank, 0, kMaxNodes - 1);
  io.Number("workers", report.workers, 1, kMaxWorkers);
  io.Number("first_local_rank", report.first_local_rank, 0, kMaxWorkers - 1);
  io("role", report.role);
  io.Message("store", report.store);
  WorkersFields(io, report);
  io("checking", report.checking);
  io.Text("unfit", report.unfit, kMaxUnfit);
  io.List("facts", report.facts, kMaxFacts, "fact");
  io("requeues", report.requeues);
  io("job_ends_unix", report.job_ends_unix);
  io.Addresses("addresses", report.addresses, kMaxAddressesBytes);
  if (Io::kReads || report.page.port != 0) {
    io.Message("page", report.page);
  }
  io.Message("events_seen", report.events_seen);
  io.List("events", report.events, kMostEventsAtOnce, "events");
}

template <class Io>
void Fields(const Io& io, Of<Io, SyncReply>& reply) {
  io.Message("directive", reply.directive);
  io.Number("beat", reply.beat, 0, INT64_MAX);
  io("lease", reply.lease, kMostLease);
  io("poll_period", reply.poll_period, kMostPoll);
  io.Possible("term", reply.term);
  io.Addresses("peers", reply.peers, kMaxPeersBytes);
  io.List("events", reply.events, kMostEventsAtOnce, "events");
  io.Message("events_kept", reply.events_kept);
}

// ---- A run from outside, and what operators ask of it ----
template <class Io>
void Fields(const Io& io, Of<Io, NodeStatus>& node) {
  io.Rows(kNodeStatusFields, node);
  io.Message("rank_details", node.rank_details, "rank_details",
             std::min(node.workers, kMaxWorkers));
  io.List("facts", node.facts, kMaxFacts, "fact");
}

template <class Io>
void Fields(const Io& io, Of<Io, Startup>& startup) {
  io.Rows(kStartupFields, startup);
}

template <class Io>
void Fields(const Io& io, Of<Io, CauseTotal>& total) {
  io.Rows(kCauseTotalFields, total);
}

template <class Io>
void Fields(const Io& io, Of<Io, RunStatus>& run) {
  io.Rows(kRunStatusFields, run);
  io.List("nodes", run.nodes, kMaxListedNodes, "nodes");
  io("more_nodes", run.more_nodes);
  io.List("startups", run.startups, kMostStartups, "startups");
  io.List("events", run.events, kMostShownEvents, "events");
  io.List("totals", run.totals, History::kMostCauses, "totals");
  io.List("training", run.training, kMostTrainingPoints, "training");
}

template <class Io>
void Fields(const Io& io, Of<Io, ControlRequest>& request) {
  io("run_id", request.run_id);
  io.Enum("verb", request.verb, kControlVerb);
  io("node", request.node);
  io.Check(request.verb != ControlVerb::kDrain || !request.node.empty(), "node", "is empty");
  io.Text("token", request.token, kMaxTokenBytes);
}

template <class Io>
void Fields(const Io& io, Of<Io, RankSpan>& span) {
  io("first", span.first);
  io.Number("last", span.last, span.first, kMaxWorld);
}

template <class Io>
void Fields(const Io& io, Of<Io, RequestSpec>& spec) {
  io.Enum("kind", spec.kind, kRequestKind);
  io.List("ranks", spec.ranks, kMostRankSpans, "spec.ranks");
  io("back", spec.back);
  io("follow", spec.follow);
}

template <class Io>
void Fields(const Io& io, Of<Io, Membership>& self) {
  io.Name("run_id", self.run_id);
  io.Name("node", self.node);
  io("incarnation", self.incarnation);
  io.Check(self.incarnation.value != 0, "incarnation", "is missing");
}

template <class Io>
void Fields(const Io& io, Of<Io, AnswerPiece>& piece) {
  io.Number("request", piece.request, 0, kMaxCount);
  io.Text("bytes", piece.bytes, kMaxPieceBytes);
  io("last", piece.last);
  io.Text("refusal", piece.refusal, kMaxRefusal);
}

template <class Io>
void Fields(const Io& io, Of<Io, NodeCommand>& command) {
  io.Number("request", command.request, 0, kMaxCount);
  io("over", command.over);
  if (!command.over) {
    io.Message("spec", command.spec);
    io.Number("piece_bytes", command.piece_bytes, kLeastPieceBytes, kMaxPieceBytes);
  }
}

template <class Io>
void Fields(const Io& io, Of<Io, AskStart>& start) {
  io("run_id", start.run_id);
  io.Text("token", start.token, kMaxTokenBytes);
  io.Message("spec", start.spec);
  io.Names("nodes", start.nodes, kMostAskedNodes);
}

template <class Io>
void Fields(const Io& io, Of<Io, AskReply>& reply) {
  io.Names("asked", reply.asked, kMaxNodes);
  io("node", reply.node);
  if (Io::kReads || !reply.node.empty()) {
    io.Message("piece", reply.piece);
  }
}

// ---- A claim's entry ----
template <class Io>
void Fields(const Io& io, Of<Io, EndedRun>& run) {
  io.Name("run_id", run.run_id);
  io.Possible("newest", run.newest);
  io.Message("outcome", run.outcome, "finish");
}

}  // namespace ddprun

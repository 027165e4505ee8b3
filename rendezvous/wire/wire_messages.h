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
#include "rendezvous/messages/pool_messages.h"
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
  io(FIELD(host), endpoint.host);
  io.Number(FIELD(port), endpoint.port, 0, 65535);
}

template <class Io>
void Fields(const Io& io, Of<Io, RunSpec>& spec) {
  io.Rows(kSpecFields, spec);
  io.Number(FIELD(max_nodes), spec.max_nodes, 1, kMaxNodes);
  io.Number(FIELD(min_nodes), spec.min_nodes, 1, spec.max_nodes);
}

template <class Io>
void Fields(const Io& io, Of<Io, Placement>& placement) {
  io.Possible(FIELD(term), placement.term);
  io.Possible(FIELD(generation), placement.generation);
  io(FIELD(world_id), placement.world_id);
  io.Number(FIELD(group_size), placement.group_size, 1, kMaxNodes);
  io.Number(FIELD(group_rank), placement.group_rank, 0, placement.group_size - 1);
  io.Number(FIELD(world_size), placement.world_size, 1, kMaxWorld);
  io.Number(FIELD(first_rank), placement.first_rank, 0, placement.world_size - 1);
  io.Number(FIELD(role_world_size), placement.role_world_size, 1, placement.world_size);
  io.Number(FIELD(role_first_rank), placement.role_first_rank, 0, placement.role_world_size - 1);
  io.Message(FIELD(store), placement.store);
  io(FIELD(restarts_used), placement.restarts_used);
}

template <class Io>
void Fields(const Io& io, Of<Io, ExitStatus>& status) {
  if constexpr (Io::kReads) {
    if (io.Has(FIELD(signal))) {
      status = Killed{};
    }
    io.Check(io.Has(FIELD(signal)) || io.Has(FIELD(exit_code)), "status", "is missing");
  }
  if (auto* const exited = std::get_if<Exited>(&status)) {
    io(FIELD(exit_code), exited->code);
  } else if (auto* const killed = std::get_if<Killed>(&status)) {
    io.Number(FIELD(signal), killed->signal, 1, kMaxSignal);
    io(FIELD(core_dumped), killed->core_dumped);
  }
}

template <class Io>
void Fields(const Io& io, Of<Io, WorkerFailure>& failure) {
  io.Number(FIELD(rank), failure.rank, 0, kMaxWorld - 1);
  io.Number(FIELD(local_rank), failure.local_rank, 0, kMaxWorkers - 1);
  io.Number(FIELD(pid), failure.pid, 0, INT32_MAX);
  Fields(io, failure.status);
  io(FIELD(said_hello), failure.said_hello);
  io(FIELD(stopped_by_us), failure.stopped_by_us);
  io(FIELD(after_ms), failure.after);
  io(FIELD(recorded), failure.recorded);
  io(FIELD(host), failure.host);
  io.Text(FIELD(last_lines), failure.last_lines, kMaxLastLines, Keep::kTail);
  io.Number(FIELD(unix_ms), failure.details.unix_ms, 0, kMaxUnixMs);
  io.Text(FIELD(error_file), failure.details.error_file, kMaxPath);
  io.Text(FIELD(error_message), failure.details.message, kMaxErrorMessage);
  io.Text(FIELD(traceback), failure.details.traceback, kMaxTraceback, Keep::kTail);
  io.Text(FIELD(hang), failure.hang, kMaxHangText);
  io(FIELD(nobody_lags), failure.nobody_lags);
}

template <class Io>
void Fields(const Io& io, Of<Io, ProgressGroup>& group) {
  io(FIELD(step), group.step);
  io(FIELD(phase), group.phase);
  io.Number(FIELD(first_rank), group.first_rank, 0, kMaxWorld - 1);
  io.Number(FIELD(count), group.count, 1, kMaxWorkers);
  io.Number(FIELD(late), group.late, 0, group.count);
  io(FIELD(allowed_ms), group.allowed);
  io.Number(FIELD(source), group.source, 0, static_cast<int>(ProgressSource::kCollectives));
}

template <class Io>
void Fields(const Io& io, Of<Io, StartTimings>& timings) {
  io(FIELD(detect_ms), timings.detect);
  io(FIELD(started_ms), timings.started);
  io(FIELD(restored_ms), timings.restored);
  io(FIELD(stepped_ms), timings.stepped);
}

// ---- A node seen from near ----
template <class Io>
void Fields(const Io& io, Of<Io, TrainingPoint>& point) {
  io(FIELD(step), point.step);
  io(FIELD(loss), point.loss);
  io(FIELD(samples_per_s), point.samples_per_s);
  io(FIELD(checkpoint), point.checkpoint);
}

template <class Io>
void Fields(const Io& io, Of<Io, HostFact>& fact) {
  io.Name(FIELD(name), fact.name, kMaxFactName);
  io.Text(FIELD(value), fact.value, kMaxFactValue);
  io(FIELD(bad), fact.bad);
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
    const v1::RankDetails& wire = io.wire();
    const auto in = [](const auto& column, std::size_t most) {
      return std::ranges::all_of(column, [most](std::uint32_t value) { return value <= most; });
    };
    io.Check(in(wire.state(), static_cast<std::size_t>(RankState::kEnded)), "state",
             "is not known");
    io.Check(in(wire.phase(), static_cast<std::size_t>(wire.phases_size())), "phase",
             "is none of the phases");
    io.Check(ReadRanks(wire, workers, details.ranks), "", "has columns that do not fit");
  } else {
    WriteRanks(details.ranks, io.wire());
  }
  io.Names(FIELD(phases), details.phases, kMostPhases, kLongestPhase);
  io.Message(FIELD(training), details.training);
  io(FIELD(steps), details.steps);
}

// ---- Events ----
template <class Io>
void Fields(const Io& io, Of<Io, RunEvent>& event) {
  io.Rows(kRunEventFields, event);
  io.Enum(FIELD(level), event.level);
}

template <class Io>
void Fields(const Io& io, Of<Io, EventMark>& mark) {
  io.Possible(FIELD(term), mark.term);
  io.Number(FIELD(number), mark.number, 0, kMaxCount);
}

// ---- Directives ----
template <class Io>
void Fields(const Io& io, Of<Io, Wait>& wait) {
  auto& reason = wait.reason;
  io.Enum(FIELD(what), reason.what);
  io.Number(FIELD(have), reason.have, 0, kMaxNodes);
  io.Number(FIELD(need), reason.need, 0, kMaxNodes);
  io.Number(FIELD(want), reason.want, 0, kMaxNodes);
  io.Names(FIELD(missing), reason.missing, kMaxNamed);
  io.Texts(FIELD(unfit), reason.unfit, kMaxNamed, kMaxNamedUnfit);
  io(FIELD(remaining_ms), reason.remaining);
  io(FIELD(losses), reason.losses);
  io(FIELD(span_ms), reason.span);
}

template <class Io>
void Fields(const Io& io, Of<Io, Run>& run) {
  io.Check(io.Has(FIELD(placement)), "placement", "is missing");
  io.Message(FIELD(placement), run.placement);
}

template <class Io>
void Fields(const Io& io, Of<Io, Stop>& stop) {
  io.Possible(FIELD(generation), stop.generation);
  io(FIELD(world_id), stop.world_id);
  io.Enum(FIELD(cause), stop.cause);
  io(FIELD(interrupts), stop.interrupts);
}

template <class Io>
void Fields(const Io& io, Of<Io, Finish>& finish) {
  io.Enum(FIELD(ending), finish.ending);
  io(FIELD(exit_code), finish.exit_code);
  io.Check(finish.exit_code != 0 || finish.ending == Ending::kSucceeded, "exit_code",
           "is 0, which says success, where there was none");
  io.Text(FIELD(text), finish.text, kMaxTextBytes);
  io.Message(FIELD(root), finish.root, "failure");
  io(FIELD(gave_up), finish.gave_up);
}

template <class Io>
void Fields(const Io& io, Of<Io, Directive>& directive) {
  const bool known = io.template Choice<Wait>(FIELD(wait), directive) ||
                     io.template Choice<Run>(FIELD(run), directive) ||
                     io.template Choice<Stop>(FIELD(stop), directive) ||
                     io.template Choice<Finish>(FIELD(finish), directive);
  io.Check(known, "", "is missing or of an unknown kind");
}

// ---- A call of a node, and its answer ----
template <class Io>
void WorkersFields(const Io& io, Of<Io, NodeReport>& report) {
  io.Enum(FIELD(hosting), report.hosting);
  io.Message(FIELD(placement), report.placement);
  io.Enum(FIELD(outcome), report.outcome);
  io.List(FIELD(failures), report.failures, kMaxFailures, "failure");
  io.Text(FIELD(spawn_failure), report.spawn_failure, kMaxTextBytes);
  io.Possible(FIELD(floor), report.floor);
  io(FIELD(restarts_used), report.restarts_used);
  io.Number(FIELD(unkillable), report.unkillable, 0, kMaxWorkers);
  io.Number(FIELD(hung_rank), report.hung_rank, 0, kMaxWorld - 1);
  io(FIELD(progress), report.progress);
  io.Message(FIELD(start_timings), report.start_timings);
  io.Message(FIELD(rank_details), report.rank_details, "rank_details", report.workers);
  io.Number(FIELD(ended_well), report.ended_well, 0, report.workers);
  io.List(FIELD(progress_groups), report.progress_groups, kMaxProgressGroups, "progress_group");
  io.Enum(FIELD(leaving), report.leaving);
  io(FIELD(starting), report.starting);
  io(FIELD(interrupted), report.interrupted);
  io(FIELD(saving), report.saving);
}

template <class Io>
void Fields(const Io& io, Of<Io, NodeReport>& report) {
  io.Name(FIELD(run_id), report.run_id);
  io.Name(FIELD(node), report.node);
  io(FIELD(incarnation), report.incarnation);
  io(FIELD(former_incarnation), report.former_incarnation);
  io(FIELD(sequence), report.sequence);
  io.Possible(FIELD(term), report.term);
  io.Number(FIELD(beat), report.beat, 0, INT64_MAX);
  io.Message(FIELD(echo), report.echo);
  io.Message(FIELD(spec), report.spec);
  io.Name(FIELD(host), report.host);
  io.Number(FIELD(node_rank), report.node_rank, 0, kMaxNodes - 1);
  io.Number(FIELD(workers), report.workers, 1, kMaxWorkers);
  io.Number(FIELD(first_local_rank), report.first_local_rank, 0, kMaxWorkers - 1);
  io(FIELD(role), report.role);
  io.Message(FIELD(store), report.store);
  WorkersFields(io, report);
  io(FIELD(checking), report.checking);
  io.Text(FIELD(unfit), report.unfit, kMaxUnfit);
  io.List(FIELD(facts), report.facts, kMaxFacts, "fact");
  io(FIELD(requeues), report.requeues);
  io(FIELD(job_ends_unix), report.job_ends_unix);
  io.Addresses(FIELD(addresses), report.addresses, kMaxAddressesBytes);
  if (Io::kReads || report.page.port != 0) {
    io.Message(FIELD(page), report.page);
  }
  io.Message(FIELD(events_seen), report.events_seen);
  io.List(FIELD(events), report.events, kMostEventsAtOnce, "events");
}

template <class Io>
void Fields(const Io& io, Of<Io, SyncReply>& reply) {
  io.Message(FIELD(directive), reply.directive);
  io.Number(FIELD(beat), reply.beat, 0, INT64_MAX);
  io(FIELD(lease_ms), reply.lease, kMostLease);
  io(FIELD(poll_period_ms), reply.poll_period, kMostPoll);
  io.Possible(FIELD(term), reply.term);
  io.Addresses(FIELD(peers), reply.peers, kMaxPeersBytes);
  io.List(FIELD(events), reply.events, kMostEventsAtOnce, "events");
  io.Message(FIELD(events_kept), reply.events_kept);
}

// ---- A run from outside, and what operators ask of it ----
template <class Io>
void Fields(const Io& io, Of<Io, NodeStatus>& node) {
  io.Rows(kNodeStatusFields, node);
  io.Message(FIELD(rank_details), node.rank_details, "rank_details",
             std::min(node.workers, kMaxWorkers));
  io.List(FIELD(facts), node.facts, kMaxFacts, "fact");
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
  io.List(FIELD(nodes), run.nodes, kMaxListedNodes, "nodes");
  io(FIELD(more_nodes), run.more_nodes);
  io.List(FIELD(startups), run.startups, kMostStartups, "startups");
  io.List(FIELD(events), run.events, kMostShownEvents, "events");
  io.List(FIELD(totals), run.totals, History::kMostCauses, "totals");
  io.List(FIELD(training), run.training, kMostTrainingPoints, "training");
}

inline constexpr std::size_t kMaxRuns = 1000;

template <class Io>
void Fields(const Io& io, Of<Io, std::vector<RunStatus>>& runs) {
  io.List(FIELD(runs), runs, kMaxRuns, "");
}

template <class Io>
void Fields(const Io& io, Of<Io, ControlRequest>& request) {
  io(FIELD(run_id), request.run_id);
  io.Enum(FIELD(verb), request.verb);
  io(FIELD(node), request.node);
  io.Check(request.verb != ControlVerb::kDrain || !request.node.empty(), "node", "is empty");
  io.Text(FIELD(token), request.token, kMaxTokenBytes);
}

template <class Io>
void Fields(const Io& io, Of<Io, RankSpan>& span) {
  io(FIELD(first), span.first);
  io.Number(FIELD(last), span.last, span.first, kMaxWorld);
}

template <class Io>
void Fields(const Io& io, Of<Io, RequestSpec>& spec) {
  io.Enum(FIELD(kind), spec.kind);
  io.List(FIELD(ranks), spec.ranks, kMostRankSpans, "spec.ranks");
  io(FIELD(back_ms), spec.back);
  io(FIELD(follow), spec.follow);
  io.Number(FIELD(lines), spec.lines, 0, kMostLastLines);
}

template <class Io>
void Fields(const Io& io, Of<Io, Membership>& self) {
  io.Name(FIELD(run_id), self.run_id);
  io.Name(FIELD(node), self.node);
  io(FIELD(incarnation), self.incarnation);
  io.Check(self.incarnation.value != 0, "incarnation", "is missing");
}

template <class Io>
void Fields(const Io& io, Of<Io, AnswerPiece>& piece) {
  io.Number(FIELD(request), piece.request, 0, kMaxCount);
  io.Text(FIELD(bytes), piece.bytes, kMaxPieceBytes);
  io(FIELD(last), piece.last);
  io.Text(FIELD(refusal), piece.refusal, kMaxRefusal);
}

template <class Io>
void Fields(const Io& io, Of<Io, NodeCommand>& command) {
  io.Number(FIELD(request), command.request, 0, kMaxCount);
  io(FIELD(over), command.over);
  if (!command.over) {
    io.Message(FIELD(spec), command.spec);
    io.Number(FIELD(piece_bytes), command.piece_bytes, kLeastPieceBytes, kMaxPieceBytes);
  }
}

template <class Io>
void Fields(const Io& io, Of<Io, AskStart>& start) {
  io(FIELD(run_id), start.run_id);
  io.Text(FIELD(token), start.token, kMaxTokenBytes);
  io.Message(FIELD(spec), start.spec);
  io.Names(FIELD(nodes), start.nodes, kMostAskedNodes);
}

template <class Io>
void Fields(const Io& io, Of<Io, AskReply>& reply) {
  io.Names(FIELD(asked), reply.asked, kMaxNodes);
  io(FIELD(node), reply.node);
  if (Io::kReads || !reply.node.empty()) {
    io.Message(FIELD(piece), reply.piece);
  }
}

// ---- A pool ----
template <class Io>
void Fields(const Io& io, Of<Io, SaidLine>& line) {
  io.Number(FIELD(number), line.number, 1, kMaxCount);
  io.Number(FIELD(level), line.level, 0, 3);
  io.Text(FIELD(text), line.text, kMaxSaidLine);
}

template <class Io>
void Fields(const Io& io, Of<Io, EndedPart>& part) {
  io.Name(FIELD(run_id), part.run_id);
  io.Number(FIELD(part), part.part, 1, kMaxCount);
  io(FIELD(exit_code), part.exit_code);
}

template <class Io>
void Fields(const Io& io, Of<Io, PoolOffer>& offer) {
  io.Name(FIELD(name), offer.name);
  io(FIELD(incarnation), offer.incarnation);
  io.Text(FIELD(facts), offer.facts, kMaxPoolFacts);
  io.Text(FIELD(unfit), offer.unfit, kMaxUnfit);
  io(FIELD(drained), offer.drained);
  io(FIELD(run_id), offer.run_id);
  io.Number(FIELD(part), offer.part, 0, kMaxCount);
  io(FIELD(detached), offer.detached);
  io.List(FIELD(ended), offer.ended, kMostEndedParts, "ended");
  io.List(FIELD(said), offer.said, kMostSaidLines, "said");
  io.Number(FIELD(said_part), offer.said_part, 0, kMaxCount);
  io.Check(SaidBytes(offer.said) <= kMaxSaidBytes, "said", "is too long");
}

template <class Io>
void Fields(const Io& io, Of<Io, PoolOrder>& order) {
  io(FIELD(run_id), order.run_id);
  io.Number(FIELD(part), order.part, 0, kMaxCount);
  io.Text(FIELD(directory), order.directory, kMaxPath);
  io.Texts(FIELD(args), order.args, kMostWorkArgs, kMaxWork);
  io.Text(FIELD(signals), order.signals, kMostSignals);
  io(FIELD(detached), order.detached);
  io(FIELD(end), order.end);
  io(FIELD(drained), order.drained);
}

template <class Io>
void Fields(const Io& io, Of<Io, PoolRequest>& request) {
  io.Name(FIELD(run_id), request.run_id);
  io.Check(request.run_id.find(' ') == std::string::npos, "run_id", "has a space");
  io(FIELD(incarnation), request.incarnation);
  io.Number(FIELD(ticket), request.ticket, 0, kMaxCount);
  io(FIELD(placed), request.placed);
  io.Number(FIELD(min_nodes), request.min_nodes, 1, kMostDaemons);
  io.Number(FIELD(max_nodes), request.max_nodes, request.min_nodes, kMostDaemons);
  io.Text(FIELD(directory), request.directory, kMaxPath);
  io.Texts(FIELD(args), request.args, kMostWorkArgs, kMaxWork);
  io.Check(WorkBytes(request.directory, request.args) <= kMaxWork, "args", "is too long");
  io.Text(FIELD(signals), request.signals, kMostSignals);
  io(FIELD(detached), request.detached);
}

template <class Io>
void Fields(const Io& io, Of<Io, PoolPart>& part) {
  io.Name(FIELD(name), part.name);
  io(FIELD(ended), part.ended);
  io.List(FIELD(said), part.said, kMostSaidLines, "said");
}

template <class Io>
void Fields(const Io& io, Of<Io, PoolView>& view) {
  io.Number(FIELD(ticket), view.ticket, 0, kMaxCount);
  io(FIELD(placed), view.placed);
  io(FIELD(place), view.place);
  io.Text(FIELD(waits), view.waits, kMaxTextBytes);
  io.List(FIELD(parts), view.parts, kMostDaemons, "parts");
  io(FIELD(over), view.over);
  io(FIELD(exit_code), view.exit_code);
}

template <class Io>
void Fields(const Io& io, Of<Io, PoolMember>& member) {
  io.Name(FIELD(name), member.name);
  io.Text(FIELD(facts), member.facts, kMaxPoolFacts);
  io.Text(FIELD(state), member.state, kMaxPoolState);
}

template <class Io>
void Fields(const Io& io, Of<Io, PoolQueued>& run) {
  io.Name(FIELD(run_id), run.run_id);
  io(FIELD(min_nodes), run.min_nodes);
  io(FIELD(max_nodes), run.max_nodes);
  io.Enum(FIELD(phase), run.phase);
  io.Text(FIELD(state), run.state, kMaxPoolState);
}

template <class Io>
void Fields(const Io& io, Of<Io, PoolStatus>& status) {
  io.List(FIELD(members), status.members, kMostDaemons, "members");
  io.List(FIELD(runs), status.runs, kMostPoolRequests + kMostPastRuns, "runs");
}

// None: a question.
template <class Io>
void Fields(const Io& io, Of<Io, PoolReport>& report) {
  (void)(io.template Choice<PoolOffer>(FIELD(offer), report) ||
         io.template Choice<PoolRequest>(FIELD(request), report));
}

template <class Io>
void Fields(const Io& io, Of<Io, PoolReply>& reply) {
  const bool known = io.template Choice<PoolOrder>(FIELD(order), reply) ||
                     io.template Choice<PoolView>(FIELD(view), reply) ||
                     io.template Choice<PoolStatus>(FIELD(status), reply);
  io.Check(known, "kind", "is missing");
}

// ---- A claim's entry ----
template <class Io>
void Fields(const Io& io, Of<Io, EndedRun>& run) {
  io.Name(FIELD(run_id), run.run_id);
  io.Possible(FIELD(newest), run.newest);
  io.Message(FIELD(outcome), run.outcome, "finish");
  io.Possible(FIELD(term), run.term);
}

}  // namespace ddprun

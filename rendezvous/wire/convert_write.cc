#include <algorithm>
#include <string_view>

#include "common/overload.h"
#include "rendezvous/wire/convert.h"
#include "rendezvous/wire/wire_fields.h"
#include "rendezvous/wire/wire_parts.h"

namespace ddprun {
namespace {

template <class Value, class Wire, std::size_t kSize>
Wire ToWire(const Names<Value, Wire, kSize>& names, Value value) {
  const auto found = std::ranges::find(names, value, &std::pair<Value, Wire>::first);
  CHECK(found != names.end());
  return found->second;
}

// The end says more than the beginning only of a worker's output, and of a traceback.
std::string_view Head(std::string_view text, std::size_t most) {
  return text.substr(0, most);
}
std::string_view Tail(std::string_view text, std::size_t most) {
  return text.substr(text.size() - std::min(text.size(), most));
}

}  // namespace

void Write(const Endpoint& endpoint, v1::Endpoint* wire) {
  wire->set_host(endpoint.host);
  wire->set_port(endpoint.port);
}

void Write(const RunSpec& spec, v1::RunSpec* wire) {
  WriteFields(kSpecFields, spec, wire);
}

namespace {

void Write(const Placement& placement, v1::Placement* wire) {
  wire->set_term(placement.term.value);
  wire->set_generation(placement.generation.value);
  wire->set_world_id(placement.world_id.value);
  wire->set_group_rank(placement.group_rank);
  wire->set_group_size(placement.group_size);
  wire->set_first_rank(placement.first_rank);
  wire->set_world_size(placement.world_size);
  wire->set_role_first_rank(placement.role_first_rank);
  wire->set_role_world_size(placement.role_world_size);
  Write(placement.store, wire->mutable_store());
  wire->set_restarts_used(placement.restarts_used);
}

void Write(const WorkerFailure& failure, v1::WorkerFailure* wire) {
  wire->set_rank(failure.rank);
  wire->set_local_rank(failure.local_rank);
  wire->set_pid(failure.pid);
  std::visit(Overload{[&](const Exited& exited) { wire->set_exit_code(exited.code); },
                      [&](const Killed& killed) {
                        wire->set_signal(killed.signal);
                        wire->set_core_dumped(killed.core_dumped);
                      }},
             failure.status);
  wire->set_said_hello(failure.said_hello);
  wire->set_stopped_by_us(failure.stopped_by_us);
  wire->set_after_ms(failure.after.count());
  wire->set_recorded(failure.recorded);
  wire->set_host(failure.host);
  wire->set_last_lines(std::string(Tail(failure.last_lines, kMaxLastLines)));
  wire->set_unix_ms(failure.details.unix_ms);
  wire->set_error_file(std::string(Head(failure.details.error_file, kMaxPath)));
  wire->set_error_message(std::string(Head(failure.details.message, kMaxErrorMessage)));
  wire->set_traceback(std::string(Tail(failure.details.traceback, kMaxTraceback)));
  wire->set_hang(std::string(Head(failure.hang, kMaxHangText)));
  wire->set_nobody_lags(failure.nobody_lags);
}

void Write(const ProgressGroup& group, v1::ProgressGroup* wire) {
  wire->set_step(group.step);
  wire->set_phase(group.phase);
  wire->set_first_rank(group.first_rank);
  wire->set_count(group.count);
  wire->set_late(group.late);
  wire->set_allowed_ms(group.allowed.count());
  wire->set_source(static_cast<std::uint32_t>(group.source));
}

void Write(const WaitReason& reason, v1::Wait* wire) {
  wire->set_what(ToWire(kWaitFor, reason.what));
  wire->set_have(reason.have);
  wire->set_need(reason.need);
  wire->set_want(reason.want);
  for (std::size_t i = 0; i < std::min(reason.missing.size(), kMaxNamed); ++i) {
    wire->add_missing(reason.missing[i]);
  }
  for (std::size_t i = 0; i < std::min(reason.unfit.size(), kMaxNamed); ++i) {
    wire->add_unfit(std::string(Head(reason.unfit[i], kMaxNamedUnfit)));
  }
  if (reason.remaining) {
    wire->set_remaining_ms(reason.remaining->count());
  }
  wire->set_losses(reason.losses);
  wire->set_span_ms(reason.span.count());
}

}  // namespace

void Write(const Finish& finish, v1::Finish* wire) {
  wire->set_ending(ToWire(kEnding, finish.ending));
  wire->set_exit_code(finish.exit_code);
  wire->set_text(std::string(Head(finish.text, kMaxTextBytes)));
  if (finish.root) {
    Write(*finish.root, wire->mutable_root());
  }
  wire->set_gave_up(finish.gave_up);
}

namespace {

void Write(const Directive& directive, v1::Directive* wire) {
  std::visit(Overload{[&](const Wait& wait) { Write(wait.reason, wire->mutable_wait()); },
                      [&](const Run& run) {
                        Write(run.placement, wire->mutable_run()->mutable_placement());
                      },
                      [&](const Stop& stop) {
                        wire->mutable_stop()->set_generation(stop.generation.value);
                        wire->mutable_stop()->set_world_id(stop.world_id.value);
                        wire->mutable_stop()->set_cause(ToWire(kStopCause, stop.cause));
                      },
                      [&](const Finish& finish) { Write(finish, wire->mutable_finish()); }},
             directive);
}

}  // namespace

namespace {

void Write(const StartTimings& timings, v1::StartTimings* wire) {
  if (timings.detect) {
    wire->set_detect_ms(timings.detect->count());
  }
  if (timings.started) {
    wire->set_started_ms(timings.started->count());
  }
  if (timings.restored) {
    wire->set_restored_ms(timings.restored->count());
  }
  if (timings.stepped) {
    wire->set_stepped_ms(timings.stepped->count());
  }
}

}  // namespace

void ToProto(const NodeReport& report, v1::SyncRequest* wire) {
  wire->set_protocol(kProtocol);
  wire->set_run_id(report.run_id);
  wire->set_node(report.node);
  wire->set_incarnation(report.incarnation.value);
  wire->set_former_incarnation(report.former_incarnation.value);
  wire->set_sequence(report.sequence);
  wire->set_term(report.term.value);
  wire->set_beat(report.beat);
  if (report.echo) {
    Write(*report.echo, wire->mutable_echo());
  }
  Write(report.spec, wire->mutable_spec());
  wire->set_host(report.host);
  if (report.node_rank) {
    wire->set_node_rank(*report.node_rank);
  }
  wire->set_workers(report.workers);
  wire->set_first_local_rank(report.first_local_rank);
  wire->set_role(report.role);
  Write(report.store, wire->mutable_store());
  wire->set_hosting(ToWire(kHosting, report.hosting));
  if (report.placement) {
    Write(*report.placement, wire->mutable_placement());
  }
  wire->set_outcome(ToWire(kOutcome, report.outcome));
  for (std::size_t i = 0; i < std::min(report.failures.size(), kMaxFailures); ++i) {
    Write(report.failures[i], wire->add_failures());
  }
  wire->set_spawn_failure(std::string(Head(report.spawn_failure, kMaxTextBytes)));
  wire->set_floor(report.floor.value);
  wire->set_restarts_used(report.restarts_used);
  wire->set_unkillable(report.unkillable);
  if (report.hung_rank) {
    wire->set_hung_rank(*report.hung_rank);
  }
  wire->set_progress(report.progress);
  wire->set_ended_well(report.ended_well);
  for (std::size_t i = 0; i < std::min(report.progress_groups.size(), kMaxProgressGroups); ++i) {
    Write(report.progress_groups[i], wire->add_progress_groups());
  }
  Write(report.start_timings, wire->mutable_start_timings());
  Write(report.rank_details, wire->mutable_rank_details());
  wire->set_leaving(ToWire(kLeaving, report.leaving));
  wire->set_starting(report.starting);
  wire->set_saving(report.saving);
  wire->set_checking(report.checking);
  wire->set_unfit(std::string(Head(report.unfit, kMaxUnfit)));
  WriteFacts(report.facts, wire->mutable_facts());
  wire->set_requeues(report.requeues);
  wire->set_job_ends_unix(report.job_ends_unix);
  wire->set_addresses(report.addresses);
  if (report.page.port != 0) {
    Write(report.page, wire->mutable_page());
  }
  Write(report.events_seen, wire->mutable_events_seen());
  for (std::size_t i = 0; i < std::min(report.events.size(), kMostEventsAtOnce); ++i) {
    Write(report.events[i], wire->add_events());
  }
}

void ToProto(const SyncReply& reply, v1::SyncReply* wire) {
  Write(reply.directive, wire->mutable_directive());
  wire->set_beat(reply.beat);
  wire->set_lease_ms(reply.lease.count());
  wire->set_poll_period_ms(reply.poll_period.count());
  wire->set_term(reply.term.value);
  wire->set_peers(reply.peers);
  for (std::size_t i = 0; i < std::min(reply.events.size(), kMostEventsAtOnce); ++i) {
    Write(reply.events[i], wire->add_events());
  }
  Write(reply.events_kept, wire->mutable_events_kept());
}

}  // namespace ddprun

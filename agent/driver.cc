#include "agent/driver.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "agent/core/evidence.h"
#include "common/log.h"
#include "common/overload.h"
#include "rendezvous/messages/describe.h"
#include "rendezvous/notice_level.h"

namespace ddprun {
namespace {

constexpr Duration kSlowStart{1'000};  // Until a message says what the start waits for.

}  // namespace

AgentDriver::AgentDriver(Loop& loop, AgentConfig config, AgentParts parts)
    : loop_(loop),
      config_(std::move(config)),
      parts_(std::move(parts)),
      timer_(loop),
      slow_start_(loop),
      remains_(loop) {
  parts_.workers.Listen({
      [this](const Result<void>& started) { OnStarted(started); },
      [this](const WorkerWord& word) { OnSpoke(word); },
      [this](std::uint32_t local_rank) {
        if (state_.placement) {
          Feed(WorkerDying{state_.placement->generation, local_rank});
        }
      },
      [this](WorkerEnd end) { OnWorkerEnded(std::move(end)); },
      [this] {
        if (state_.placement) {
          Feed(StillActive{state_.placement->generation});
        }
      },
      [this] { OnAllGone(); },
  });
  parts_.channel->OnAnotherServer([this] { Feed(ServerChanged{}); });
}

Result<void> AgentDriver::Start() {
  if (const Result<void> offered = parts_.stores.Bind(); !offered) {
    return Error{ErrorKind::kInvalid,
                 "cannot open a port for the workers' store: " + offered.error().message +
                     ". Set --local-addr to an address of this machine"};
  }
  Feed(Started{parts_.draw(), parts_.stores.Offer()});
  return {};
}

void AgentDriver::Feed(const AgentEvent& event) {
  loop_.CheckOnLoop();
  for (const AgentEffect& effect : TakeStep(state_, event, loop_.Now())) {
    CarryOut(effect);
  }
  // Clients of an older generation must not meet each other, nor a newer one's keys.
  if (!NeedsStore(state_)) {
    parts_.stores.End();
  }
  ShowLiveLine();
  timer_.ArmAt(NextWake(state_, config_), [this] { Feed(AgentTick{}); });
}

std::vector<AgentEffect> AgentDriver::TakeStep(AgentState& state, const AgentEvent& event,
                                               Time now) {
  return Step(state, config_, event, now);
}

void AgentDriver::ShowLiveLine() {
  const Wait* const wait =
      state_.phase == AgentPhase::kIdle && state_.echo ? std::get_if<Wait>(&*state_.echo) : nullptr;
  const std::string why = wait == nullptr ? start_waits_for_ : Describe(wait->reason);
  const Time now = loop_.Now();
  const bool ends = state_.job_end && state_.job_end->ends > now;
  SetLiveLine(
      why.empty()
          ? ""
          : "ddprun | " + why +
                (ends ? "; the job ends in " + FormatDuration(state_.job_end->ends - now) : ""));
}

void AgentDriver::CarryOut(const AgentEffect& effect) {
  std::visit(Overload{
                 [&](const SendReport& send) { Send(send); },
                 [&](const Spawn& spawn) { SpawnWorkers(spawn.placement); },
                 [&](const SignalWorkers& s) { parts_.workers.SignalAll(s.signal, s.end_at_once); },
                 [&](const KillWorkers&) { parts_.workers.KillAll(); },
                 [&](const CheckNode& check) {
                   parts_.check(check.cause,
                                [this](std::string unfit) { Feed(NodeChecked{std::move(unfit)}); });
                 },
                 [&](const TakeStacks& take) {
                   // Shorter than the core waits, so that what a slow tool has found is still
                   // written.
                   const Duration limit = kEvidenceTime * 6 / 10;  // The rest is for disks.
                   parts_.workers.TakeStacks(
                       take.local_ranks, limit,
                       [this, generation = take.generation] { Feed(StacksTaken{generation}); });
                 },
                 [&](const Exit& exit) { parts_.on_exit(exit); },
                 [&](const Say& say) { Log(LevelOf(say.level), say.text); },
             },
             effect);
}

// ---- The rendezvous ----
void AgentDriver::Send(const SendReport& send) {
  NodeReport report = send.report;
  report.addresses = OwnAddresses(report.hosting);
  parts_.channel->Send(report, send.deadline, [this](auto sequence, auto reply) {
    NotePeers(reply);
    if (parts_.clock && reply && reply->clock) {
      parts_.clock(*reply->clock);
    }
    Feed(reply ? AgentEvent(Replied{sequence, *reply, parts_.draw()})
               : CallFailed{sequence, reply.error().message,
                            reply.error().kind == ErrorKind::kInvalid});
  });
}

// They may change while the process lives, but not where workers run.
const std::string& AgentDriver::OwnAddresses(Hosting hosting) {
  if (parts_.own_addresses && (hosting == Hosting::kNothing || addresses_.empty())) {
    addresses_ = parts_.own_addresses();
  }
  return addresses_;
}

void AgentDriver::NotePeers(const Result<SyncReply>& reply) {
  const Run* const run = reply ? std::get_if<Run>(&reply->directive) : nullptr;
  if (run != nullptr) {
    peers_of_ = run->placement.world_id;
    peers_ = reply->peers;
  }
}

// ---- Workers ----
void AgentDriver::SpawnWorkers(const Placement& placement) {
  parts_.stores.End();
  if (placement.group_rank == 0) {
    parts_.stores.Begin(placement.world_id == peers_of_ ? peers_ : "");
  }
  said_hello_.assign(config_.workers, false);
  last_attempt_ = {parts_.workers.Start(placement),
                   placement.generation,
                   placement.restarts_used,
                   loop_.Now(),
                   {},
                   {}};
  WatchStart();
}

// Most starts are over when it first looks.
void AgentDriver::WatchStart() {
  slow_start_.ArmAt(loop_.Now() + kSlowStart, [this] {
    const std::string step = parts_.workers.Starting();
    if (!step.empty() && step != start_waits_for_) {
      start_waits_for_ = step;
      const bool explained = step.ends_with(')');
      Log(explained ? LogLevel::kInfo : LogLevel::kWarning,
          "the workers are not started yet: " + step +
              (explained
                   ? ""
                   : " takes longer than usual (is its file system responding?) [slow-start]"));
      Feed(StartLasts{state_.placement->generation});
    }
    WatchStart();
  });
}

// True: the start was reported to last.
bool AgentDriver::EndStart() {
  slow_start_.Cancel();
  return !std::exchange(start_waits_for_, {}).empty();
}

void AgentDriver::OnStarted(const Result<void>& started) {
  const bool lasted = EndStart();
  const Placement placement = *state_.placement;
  if (!started) {
    Feed(SpawnFailed{placement.generation, started.error().message, parts_.stores.Offer()});
    return;
  }
  // Alone it is no news: nothing else could have been started.
  const bool alone = config_.spec.max_nodes == 1;
  const std::string first = std::to_string(placement.first_rank);
  const std::string last = std::to_string(placement.first_rank + config_.workers - 1);
  Log(alone ? LogLevel::kDebug : LogLevel::kInfo,
      "started " + (first == last ? "rank " + first : "ranks " + first + " to " + last) + " of " +
          std::to_string(placement.world_size) + " (generation " +
          std::to_string(placement.generation.value) + ", store " + ToString(placement.store) +
          ")");
  ShowLiveLine();
  Feed(WorkersStarted{placement.generation});
  if (lasted) {
    Feed(StartLasts{placement.generation, false});
  }
}

void AgentDriver::OnSpoke(const WorkerWord& word) {
  if (word.local_rank < said_hello_.size() && word.ready) {
    said_hello_[word.local_rank] = true;
  }
  Feed(word);
}

void AgentDriver::OnWorkerEnded(WorkerEnd end) {
  if (!state_.placement || end.local_rank >= said_hello_.size()) {
    return;
  }
  WorkerEnded ended{state_.placement->generation,
                    end.local_rank,
                    end.pid,
                    end.status,
                    said_hello_[end.local_rank],
                    {},
                    {},
                    {},
                    loop_.Now()};
  if (Succeeded(end.status)) {
    if (!WasStopped(state_, end.local_rank)) {
      last_attempt_.ended_well.push_back(state_.placement->first_rank + end.local_rank);
    }
    remains_.Then([this, ended = std::move(ended)] { Feed(ended); });
    return;
  }
  // The peers need not wait until its files have been read: their disk may hang.
  Feed(WorkerDying{ended.generation, ended.local_rank});
  const Duration ran = std::chrono::floor<Duration>(loop_.Now() - last_attempt_.started);
  remains_.Read(std::move(end.left), [this, ended = std::move(ended), ran, now = loop_.Now(),
                                      at = end.unix_ms](WorkerRemains remains) mutable {
    if (const std::optional<Duration> ago = TakeTime(remains.details, ran, at)) {
      constexpr Duration kRounding{1};  // The file's time is in whole ones of these.
      ended.recorded = now - *ago - kRounding;
    }
    last_attempt_.failed.push_back({state_.placement->first_rank + ended.local_rank,
                                    ended.local_rank, ended.pid, ended.status, remains.details, ran,
                                    WasStopped(state_, ended.local_rank)});
    ended.last_lines = LastOf(remains.last_lines);
    ended.details = std::move(remains.details);
    Feed(ended);
  });
}

void AgentDriver::OnAllGone() {
  if (!state_.placement) {
    return;
  }
  EndStart();
  remains_.Then([this] { Feed(AllGone{state_.placement->generation, parts_.stores.Offer()}); });
}

}  // namespace ddprun

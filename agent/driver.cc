#include "agent/driver.h"

#include <signal.h>

#include <chrono>
#include <memory>
#include <random>
#include <utility>

#include "agent/core/describe.h"
#include "agent/error_file.h"
#include "common/files.h"
#include "common/log.h"
#include "common/overload.h"
#include "rendezvous/core/describe.h"

namespace ddprun {
namespace {

constexpr Duration kSlowStart{1'000};  // Until people are told what it waits for.

Incarnation DrawIncarnation() {
  std::random_device device;
  return {(static_cast<std::uint64_t>(device()) << 32 | device()) | 1};
}

LogLevel ToLogLevel(SayLevel level) {
  switch (level) {
    case SayLevel::kDetail:
      return LogLevel::kDebug;
    case SayLevel::kInfo:
      return LogLevel::kInfo;
    case SayLevel::kWarning:
      return LogLevel::kWarning;
  }
  return LogLevel::kWarning;
}

std::string Join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text.size() > kMaxLastLines ? text.substr(text.size() - kMaxLastLines) : text;
}

// For people, and beside what workers wrote of it.
std::int64_t WallClockMs() {
  return std::chrono::floor<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

AgentDriver::AgentDriver(AsioLoop& loop, AgentOptions options, std::unique_ptr<SyncChannel> channel,
                         std::function<void(const Exit&)> on_exit)
    : loop_(loop),
      options_(std::make_shared<const AgentOptions>(std::move(options))),
      channel_(std::move(channel)),
      on_exit_(std::move(on_exit)),
      timer_(loop),
      runner_(loop, RunnerConfig{},
              RunnerEvents{
                  [this](std::uint32_t local_rank, ExitStatus status, LastErrors errors) {
                    OnWorkerEnded(local_rank, status, std::move(errors));
                  },
                  [this] { OnAllGone(); },
                  [](std::vector<pid_t>) {},  // The core counts the time itself.
              }),
      slow_start_(loop),
      notify_(loop,
              [this](std::uint32_t local_rank, const Notification& notification) {
                OnNotification(local_rank, notification);
              }),
      left_behind_(loop),
      stack_taker_(loop, "/proc/self/exe"),
      store_(options_->store),
      environment_(ProcessEnvironment()) {}

AgentDriver::~AgentDriver() {
  EndGeneration();
}

Result<void> AgentDriver::Start() {
  if (const Result<void> offered = store_.Bind(); !offered) {
    return Error{ErrorKind::kInvalid,
                 "no place for the workers' store: " + offered.error().message +
                     ": is this one of this machine's addresses? (--local-addr)"};
  }
  RETURN_IF_ERROR(StartWatchdog());
  Feed(Started{DrawIncarnation(), store_.Offer()});
  return {};
}

void AgentDriver::Feed(const AgentEvent& event) {
  loop_.CheckOnLoop();
  for (const AgentEffect& effect : Step(state_, options_->core, event, loop_.Now())) {
    CarryOut(effect);
  }
  CloseUnneededStore();
  ShowLiveLine();
  timer_.ArmAt(NextWake(state_, options_->core), [this] { Feed(AgentTick{}); });
}

void AgentDriver::ShowLiveLine() {
  const Wait* const wait =
      state_.phase == AgentPhase::kIdle && state_.echo ? std::get_if<Wait>(&*state_.echo) : nullptr;
  const std::string why = wait == nullptr ? start_waits_for_ : Describe(wait->reason);
  SetLiveLine(why.empty() ? "" : "ddprun | " + why + TimeLeft(state_, loop_.Now()));
}

void AgentDriver::CarryOut(const AgentEffect& effect) {
  std::visit(Overload{
                 [&](const SendReport& send) {
                   NodeReport report = send.report;
                   report.addresses = OwnAddresses(report.hosting);
                   channel_->Send(report, send.deadline, [this](auto sequence, auto reply) {
                     NotePeers(reply);
                     Feed(reply ? AgentEvent(Replied{sequence, *reply, DrawIncarnation()})
                                : CallFailed{sequence, reply.error().message,
                                             reply.error().kind == ErrorKind::kInvalid});
                   });
                 },
                 [&](const Spawn& spawn) { SpawnWorkers(spawn.placement); },
                 [&](const SignalWorkers& s) { runner_.SignalAll(s.signal, s.end_at_once); },
                 [&](const KillWorkers&) { runner_.KillAll(); },
                 [&](const TakeStacks& take) { TakeStacksOf(take); },
                 [&](const Exit& exit) { on_exit_(exit); },
                 [&](const Say& say) { Log(ToLogLevel(say.level), say.text); },
             },
             effect);
}

// They may change while the process lives, but not where workers run.
const std::string& AgentDriver::OwnAddresses(Hosting hosting) {
  if (options_->own_addresses && (hosting == Hosting::kNothing || addresses_.empty())) {
    addresses_ = options_->own_addresses();
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

// Clients of an older generation must not meet each other, nor a newer one's keys.
void AgentDriver::CloseUnneededStore() {
  if (!NeedsStore(state_)) {
    store_.End();
  }
}

// ---- Workers ----
// torchrun's tree: attempt_<restarts>; the same count again (no worker failed) gets a suffix, so
// that nothing is ever wiped.
std::filesystem::path AgentDriver::NewAttemptDirectory(const Placement& placement) {
  const std::string name = "attempt_" + std::to_string(placement.restarts_used);
  const std::uint32_t used = attempts_[name]++;
  return options_->run_directory / (used == 0 ? name : name + "." + std::to_string(used));
}

void AgentDriver::SpawnWorkers(const Placement& placement) {
  store_.End();
  if (placement.group_rank == 0) {
    store_.Begin(placement.world_id == peers_of_ ? peers_ : "");
  }
  said_hello_.assign(options_->core.workers, false);
  pids_.assign(options_->core.workers, 0);
  const std::filesystem::path attempt = NewAttemptDirectory(placement);
  last_attempt_ = {attempt, placement.restarts_used, loop_.Now(), {}, MemoryKills()};
  const std::string sockets = starts_ == 0 ? "notify" : "notify." + std::to_string(starts_);
  ++starts_;
  plan_ = std::make_shared<GenerationPlan>(GenerationPlan{
      options_, environment_, placement, attempt, options_->run_directory / sockets, {}});
  SayWhatStartWaitsFor();
  runner_.Spawn([plan = plan_](Making& making) { return MakeWorkers(*plan, making); },
                [this](const Result<void>& spawned) { OnSpawned(spawned); });
}

// Most starts are over when it first looks.
void AgentDriver::SayWhatStartWaitsFor() {
  const std::string step = runner_.Starting();
  if (!step.empty() && step != start_waits_for_) {
    start_waits_for_ = step;
    Log(LogLevel::kWarning, "the workers are not started yet: " + step +
                                " takes longer than usual (does its disk answer?)");
    Feed(StartLasts{plan_->placement.generation});
  }
  slow_start_.ArmAt(loop_.Now() + kSlowStart, [this] { SayWhatStartWaitsFor(); });
}

// Nothing of it is left but files.
void AgentDriver::EndGeneration() {
  slow_start_.Cancel();
  start_waits_for_.clear();
  notify_.Close();
  if (plan_) {
    runner_.Tidy([plan = std::move(plan_)]() mutable { plan.reset(); });
  }
}

void AgentDriver::OnSpawned(const Result<void>& spawned) {
  slow_start_.Cancel();
  const bool lasted = !std::exchange(start_waits_for_, {}).empty();
  const Placement placement = plan_->placement;
  if (!spawned) {
    EndGeneration();
    Feed(SpawnFailed{placement.generation, spawned.error().message, store_.Offer()});
    return;
  }
  notify_.Listen(plan_->sockets);
  for (std::uint32_t local = 0; local < options_->core.workers; ++local) {
    pids_[local] = runner_.PidOf(local);
    if (options_->on_worker) {
      options_->on_worker({placement, local, pids_[local], {}});
    }
  }
  // Alone it is no news: nothing else could have been started.
  const bool alone = options_->core.shape.max_nodes == 1;
  Log(alone ? LogLevel::kDebug : LogLevel::kInfo,
      "started generation " + std::to_string(placement.generation.value) + ": ranks " +
          std::to_string(placement.first_rank) + " to " +
          std::to_string(placement.first_rank + options_->core.workers - 1) + " of " +
          std::to_string(placement.world_size) + ", store at " + ToString(placement.store));
  ShowLiveLine();
  if (lasted) {
    Feed(StartLasts{placement.generation, false});
  }
}

void AgentDriver::OnWorkerEnded(std::uint32_t local_rank, ExitStatus status, LastErrors errors) {
  if (!state_.placement || local_rank >= pids_.size()) {
    return;
  }
  notify_.ReceiveFrom(local_rank);
  if (options_->on_worker) {
    options_->on_worker({*state_.placement, local_rank, pids_[local_rank], status});
  }
  WorkerEnded ended{state_.placement->generation,
                    local_rank,
                    pids_[local_rank],
                    status,
                    said_hello_[local_rank],
                    {},
                    {},
                    {},
                    loop_.Now()};
  if (Succeeded(status)) {
    left_behind_.Then([this, ended = std::move(ended)] { Feed(ended); });
    return;
  }
  const Duration ran = std::chrono::floor<Duration>(loop_.Now() - last_attempt_.started);
  left_behind_.Read(
      ErrorFileOf(last_attempt_.directory, local_rank), std::move(errors),
      options_->directory_stays,
      [this, ended = std::move(ended), ran, now = loop_.Now(), at = WallClockMs()](
          FailureDetails details, const std::vector<std::string>& last_lines) mutable {
        details = WithMemoryKill(std::move(details), ended.status, last_attempt_.memory_kills);
        if (const std::optional<Duration> ago = TakeTime(details, ran, at)) {
          ended.recorded = now - *ago;
        }
        last_attempt_.failed.push_back({state_.placement->first_rank + ended.local_rank,
                                        ended.local_rank, ended.pid, ended.status, details, ran});
        ended.last_lines = Join(last_lines);
        ended.details = std::move(details);
        Feed(ended);
      });
}

void AgentDriver::OnAllGone() {
  if (!state_.placement) {
    return;
  }
  EndGeneration();
  stack_taker_.Forget();
  if (watchdog_) {
    watchdog_->Forget();
  }
  left_behind_.Then([this] { Feed(AllGone{state_.placement->generation, store_.Offer()}); });
}

// As torchrun: the variable turns it on, a preset TORCHELASTIC_TIMER_FILE says where.
Result<void> AgentDriver::StartWatchdog() {
  const auto enabled = environment_.find("TORCHELASTIC_ENABLE_FILE_TIMER");
  if (enabled == environment_.end() || enabled->second != "1") {
    return {};
  }
  std::string& path = environment_["TORCHELASTIC_TIMER_FILE"];
  if (path.empty()) {
    path = (options_->run_directory / "watchdog_timer").native();
  }
  watchdog_ = std::make_unique<TimerWatchdog>(
      loop_, [this](const TimerRequest& request) { OnTimerExpired(request); });
  Result<void> listening = watchdog_->Listen(path);
  if (!listening) {
    return Error{ErrorKind::kInvalid, listening.error().message + " (TORCHELASTIC_TIMER_FILE)"};
  }
  return {};
}

void AgentDriver::OnTimerExpired(const TimerRequest& request) {
  for (std::uint32_t local = 0; local < pids_.size(); ++local) {
    // Asked of the runner: a pid that has ended may be somebody else's by now.
    if (pids_[local] != request.pid || runner_.PidOf(local) != request.pid) {
      continue;
    }
    Log(LogLevel::kWarning,
        "the timer '" + request.scope + "' of the worker of local rank " + std::to_string(local) +
            " (pid " + std::to_string(request.pid) + ") is over: " +
            (request.signal > 0 ? "sending it " + SignalName(request.signal) : "no signal asked"));
    if (request.signal > 0) {
      ::kill(static_cast<pid_t>(request.pid), request.signal);
    }
    return;
  }
  Log(LogLevel::kDebug, "a timer of process " + std::to_string(request.pid) +
                            ", which is no worker of this generation, is over");
}

void AgentDriver::OnNotification(std::uint32_t local_rank, const Notification& notification) {
  if (local_rank < said_hello_.size() && notification.ready) {
    said_hello_[local_rank] = true;
  }
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 40;  // Twelve days.
  WorkerSpoke spoke{local_rank, notification.ready, notification.step, notification.phase, {}};
  if (const auto microseconds = notification.extend_microseconds) {
    spoke.extend =
        std::chrono::ceil<Duration>(std::chrono::microseconds(std::min(*microseconds, kLongest)));
  }
  Feed(spoke);
}

// ---- Hung workers ----
void AgentDriver::TakeStacksOf(const TakeStacks& take) {
  std::vector<StackJob> jobs;
  for (const std::uint32_t local : take.local_ranks) {
    const pid_t pid = runner_.PidOf(local);
    if (pid != 0) {
      const std::filesystem::path own = last_attempt_.directory / std::to_string(local);
      const std::string rank = std::to_string(state_.placement->first_rank + local);
      jobs.push_back({pid, "stacks of rank " + rank + " (pid " + std::to_string(pid) + ")",
                      own / kStacksFile, own / "stderr.log"});
    }
  }
  // Shorter than the core waits, so that what a slow tool has found is still written.
  const Duration limit = options_->core.stop_grace * 8 / 10;
  stack_taker_.Take(std::move(jobs), limit, [this, take] { OnStacksTaken(take); });
}

void AgentDriver::OnStacksTaken(const TakeStacks& take) {
  constexpr std::size_t kMaxShown = 8 * 1024;
  const std::filesystem::path& attempt = last_attempt_.directory;
  if (options_->directory_stays) {
    Log(LogLevel::kWarning,
        "the workers' stacks are in " + attempt.native() + "/<local rank>/" + kStacksFile);
  } else if (!take.local_ranks.empty()) {  // The files go with the run.
    const auto file = attempt / std::to_string(take.local_ranks.front()) / kStacksFile;
    const auto text = std::make_shared<Result<std::string>>(std::string());
    loop_.RunBounded(
        LeftBehind::kLimit, [text, file] { *text = ReadOrdinary(file, 2 << 20); },
        [this, text, take](bool in_time) {
          Log(LogLevel::kWarning,
              !in_time ? "the workers' stacks cannot be read: their disk does not answer"
              : *text  ? (*text)->substr(0, kMaxShown) + "(--log-dir keeps those of all)"
                       : text->error().message);
          Feed(StacksTaken{take.generation});
        });
    return;
  }
  Feed(StacksTaken{take.generation});
}

}  // namespace ddprun

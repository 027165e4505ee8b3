#include "agent/process_workers.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/watch/error_file.h"
#include "agent/watch/evidence_bundle.h"
#include "agent/watch/memory_kills.h"
#include "agent/watch/remains_reader.h"
#include "agent/workers/process_tree.h"
#include "common/files.h"
#include "common/log.h"
#include "common/text.h"
#include "common/wall_clock.h"

namespace ddprun {
namespace {

constexpr Duration kEachPreloadLook{1'000};  // At what is loaded ahead for the next workers.

std::map<std::string, std::string> WorkersEnvironment(const AgentOptions& options) {
  std::map<std::string, std::string> environment = ProcessEnvironment();
  environment.insert(options.environment.begin(), options.environment.end());
  for (const auto& [name, value] : options.variables) {
    environment[name] = value;
  }
  return environment;
}

void SayWhereEvidenceIs(const std::filesystem::path& bundle) {
  Log(LogLevel::kWarning,
      "evidence of the hang (stacks, torch's flight recorder, last lines) is in " +
          bundle.native());
}

std::string ForPeople(const std::string& text) {
  constexpr std::size_t kMaxShown = 8 * 1024;
  std::string shown;
  for (const std::string& line : Split(text.substr(0, kMaxShown), '\n')) {
    shown += Printable(line) + "\n";
  }
  return shown + "(--log-dir keeps the stacks of all ranks, and more)\n";
}

// If no evidence was passed on before the last copy of this is destroyed, it says that there is
// none.
struct LiveEvidence {
  Loop& loop;
  LiveStacks::Done done;
  std::vector<AnswerRecord> records;

  LiveEvidence(Loop& the_loop, LiveStacks::Done whom) : loop(the_loop), done(std::move(whom)) {}
  LiveEvidence(const LiveEvidence&) = delete;
  LiveEvidence& operator=(const LiveEvidence&) = delete;
  ~LiveEvidence() { Say(AnswerKind::kNote, "no evidence was kept: the rank is being stopped"); }

  void Say(AnswerKind of, const std::string& text) {
    if (!done) {
      return;
    }
    for (AnswerRecord& record : records) {
      record.of = of;
      record.text = text;
    }
    loop.Post([hears = std::exchange(done, nullptr), told = std::move(records)] { hears(told); });
  }
};

}  // namespace

ProcessWorkers::ProcessWorkers(AsioLoop& loop, std::shared_ptr<const AgentOptions> options)
    : loop_(loop),
      options_(std::move(options)),
      environment_(WorkersEnvironment(*options_)),
      kept_(std::make_shared<KeptOutput>(options_->core.workers)),
      runner_(loop,
              RunnerConfig{.linger = options_->linger,
                           .kept = kept_,
                           .warm = PlanWarmStart(*options_, environment_),
                           .progress = {options_->progress_from,
                                        [this](const WorkerWord& said) { events_.spoke(said); }}},
              RunnerEvents{
                  [this](std::uint32_t local_rank, ExitStatus status, LastErrors errors) {
                    OnEnded(local_rank, status, std::move(errors));
                  },
                  [this](const StraysOfWorker& left) { OnLeft(left); },
                  [this] { OnAllGone(); },
              }),
      memory_(MostKeptBytes()),
      notify_(loop, [this](std::uint32_t local_rank, const Notification& said,
                           const SentDescriptor& sent) { OnSaid(local_rank, said, sent); }),
      life_(loop,
            [this](std::uint32_t local_rank, pid_t process) { OnDying(local_rank, process); }),
      preload_timer_(loop),
      hang_evidence_(loop, "/proc/self/exe"),
      failure_evidence_(loop),
      live_stacks_(loop, "/proc/self/exe"),
      survivors_(
          loop, [this] { return runner_.Sessions(); }, [this] { events_.active(); }) {}

ProcessWorkers::~ProcessWorkers() {
  EndGeneration();
}

// As in torchrun's tree: attempt_<restarts>. A later generation with the same count (no worker
// failed) has its number as a suffix, so that no earlier attempt is overwritten.
std::filesystem::path ProcessWorkers::NewAttemptDirectory(const Placement& placement) {
  const std::string name = "attempt_" + std::to_string(placement.restarts_used);
  const bool first = attempts_.insert(name).second;
  return options_->run_directory /
         (first ? name : name + "." + std::to_string(placement.generation.value));
}

std::filesystem::path ProcessWorkers::Start(const Placement& placement) {
  placement_ = placement;
  pids_.assign(options_->core.workers, 0);
  save_signals_.assign(options_->core.workers, 0);
  kept_->Begin(placement.first_rank, placement.generation.value);
  attempt_ = NewAttemptDirectory(placement);
  memory_kills_ = MemoryKills();
  began_ = std::filesystem::file_time_type::clock::now();
  kept_evidence_ = false;
  death_begun_ = false;
  const std::string sockets = starts_ == 0 ? "notify" : "notify." + std::to_string(starts_);
  ++starts_;
  plan_ = std::make_shared<GenerationPlan>(
      GenerationPlan{.options = options_,
                     .environment = environment_,
                     .placement = placement,
                     .attempt = attempt_,
                     .notify_directory = options_->run_directory / sockets,
                     .life_locks = life_.Offer()});
  for (std::uint32_t local = 0; local < options_->core.workers; ++local) {
    plan_->memory.push_back(memory_.BlocksOf(local));
  }
  refusal_told_.clear();
  timer_kills_.clear();
  if (options_->on_start) {
    options_->on_start();
  }
  runner_.Spawn([plan = plan_](const BeginStep& begin) { return MakeWorkers(*plan, begin); },
                [this](const Result<void>& spawned) { OnSpawned(spawned); });
  return attempt_;
}

// Called when only files are left of the generation.
void ProcessWorkers::EndGeneration() {
  notify_.Close();
  preload_timer_.Cancel();
  life_.End();
  if (plan_) {
    runner_.Cleanup([plan = std::move(plan_)]() mutable { plan.reset(); });
  }
}

void ProcessWorkers::OnSpawned(const Result<void>& spawned) {
  if (!spawned) {
    EndGeneration();
  } else {
    plan_->memory.clear();  // Else replaced blocks would stay until the generation's end.
    notify_.Listen(plan_->sockets);
    for (std::uint32_t local = 0; local < options_->core.workers; ++local) {
      pids_[local] = runner_.PidOf(local);
      Tell(local, std::nullopt);
    }
    life_.Watch({pids_.begin(), pids_.end()});
    LookAtPreload();
  }
  events_.started(spawned);
}

std::string ProcessWorkers::Preloaded() const {
  const std::string state = runner_.PreloadState();
  return state.empty() ? options_->no_preload : state;
}

void ProcessWorkers::LookAtPreload() {
  runner_.LookForPreload();
  if (std::string now = Preloaded(); std::exchange(preload_told_, now) != now) {
    preload_changed_();
  }
  preload_timer_.ArmAt(loop_.Now() + kEachPreloadLook, [this] { LookAtPreload(); });
}

void ProcessWorkers::OnSaid(std::uint32_t local_rank, const Notification& said,
                            const SentDescriptor& sent) {
  if (const Result<void> heard = memory_.Hear(local_rank, said, sent); !heard) {
    TellRefusal(local_rank, "cannot keep the memory that the worker of local rank " +
                                std::to_string(local_rank) + " leaves: " + heard.error().message);
  }
  if (said.save_signal && local_rank < save_signals_.size()) {
    save_signals_[local_rank] = *said.save_signal;
  }
  Pass(local_rank, said);
}

// Logs one refusal for each worker of a generation.
void ProcessWorkers::TellRefusal(std::uint32_t local_rank, const std::string& text) {
  if (refusal_told_.insert(local_rank).second) {
    Log(LogLevel::kWarning, text);
  }
}

void ProcessWorkers::Pass(std::uint32_t local_rank, WorkerWord word) {
  word.local_rank = local_rank;
  events_.spoke(word);
}

void ProcessWorkers::Tell(std::uint32_t local_rank, std::optional<ExitStatus> ended) const {
  if (options_->on_worker) {
    options_->on_worker({placement_, local_rank, pids_[local_rank], ended});
  }
}

// While it has not been waited for, its number is its own.
void ProcessWorkers::OnDying(std::uint32_t local_rank, pid_t process) {
  if (runner_.PidOf(local_rank) != process) {
    return;
  }
  notify_.ReceiveFrom(local_rank);
  death_begun_ |= !kept_evidence_;
  runner_.NoteDying(local_rank);
  events_.dying(local_rank);
}

void ProcessWorkers::OnEnded(std::uint32_t local_rank, ExitStatus status, LastErrors errors) {
  notify_.ReceiveFrom(local_rank);
  Tell(local_rank, status);
  WorkerEnd end{local_rank, pids_[local_rank], status, UnixMilliseconds(), {}};
  const bool failed = !Succeeded(status);
  if (failed) {
    end.left = FilesOf(local_rank, status, std::move(errors));
    death_begun_ |= !kept_evidence_;
  }
  events_.ended(std::move(end));  // First, so that its peers and the server wait for no evidence.
  if (failed) {
    KeepEvidenceOfFailure();
  }
  hang_evidence_.Ended(local_rank);
}

LeftFiles ProcessWorkers::FilesOf(std::uint32_t local_rank, ExitStatus status,
                                  LastErrors errors) const {
  const std::filesystem::path error_file =
      WorkersFile(attempt_, local_rank, kErrorFile, options_->directory_stays);
  LeftFiles left{error_file.parent_path().native(), {}, errors.lines};
  const auto timer = timer_kills_.find(local_rank);
  const Killed* const killed = std::get_if<Killed>(&status);
  std::string expired;
  if (killed != nullptr && timer != timer_kills_.end() && timer->second.signal == killed->signal) {
    expired =
        std::string(kTimerExpired) + timer->second.scope + "' expired; ddprun killed the worker";
  }
  left.read = [error_file, status, errors = std::move(errors), stays = options_->directory_stays,
               before = memory_kills_, expired] {
    FailureDetails details = ReadDetails(error_file, stays);
    if (details.message.empty()) {
      details.message = expired;
    }
    return WorkerRemains{WithMemoryKill(std::move(details), status, before),
                         errors.log.empty() ? errors.lines : LastLinesOf(errors.log)};
  };
  return left;
}

// Logs processes that workers left behind: a warning only if no worker failed or was stopped.
void ProcessWorkers::OnLeft(const StraysOfWorker& left) {
  constexpr std::size_t kMostNames = 8;
  const std::size_t count = left.names.size();
  std::string which =
      std::to_string(count) + (count == 1 ? " process" : " processes") + " that " +
      (left.local_rank ? "rank " + std::to_string(placement_.first_rank + *left.local_rank)
                       : "a worker") +
      " left behind: ";
  for (std::size_t i = 0; i < std::min(count, kMostNames); ++i) {
    which += (i == 0 ? "" : ", ") + left.names[i];
  }
  which += count > kMostNames ? ", ..." : "";
  if (left.lingers && options_->linger > Duration{0}) {
    Log(LogLevel::kInfo,
        "waiting up to " + FormatDuration(options_->linger) + " for " + which + " (--linger)");
  } else if (left.lingers) {
    Log(LogLevel::kInfo, "waiting for " + which + " (--shutdown-timeout)");
  } else if (kept_evidence_ || options_->linger > Duration{0}) {
    Log(LogLevel::kInfo, "ended " + which);
  } else {
    Log(LogLevel::kWarning, "ended " + which + " (--linger=DURATION lets it finish) [left-behind]");
  }
}

void ProcessWorkers::OnAllGone() {
  notify_.ReceiveFromAll();
  EndGeneration();
  hang_evidence_.AllGone();
  live_stacks_.Forget();
  survivors_.Forget();
  if (watchdog_) {
    watchdog_->Forget();
  }
  events_.all_gone();
}

// ---- Timers ----
// As in torchrun: the variable turns it on, and TORCHELASTIC_TIMER_FILE may name the file.
Result<void> ProcessWorkers::Open() {
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

// The process must be a worker or its descendant. The pidfd pins it, so that the process that is
// checked here is the one that is signalled.
void ProcessWorkers::OnTimerExpired(const TimerRequest& request) {
  const auto pid = static_cast<pid_t>(request.pid);
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  for (std::uint32_t local = 0; local < pids_.size(); ++local) {
    const pid_t worker = runner_.PidOf(local);
    const bool own = worker == pid;
    if (worker == 0 || !(own || DescendsFrom(pid, worker))) {
      continue;
    }
    Log(LogLevel::kWarning, "watchdog timer '" + request.scope + "' of " +
                                (own ? "" : "a child of ") + "the worker of local rank " +
                                std::to_string(local) + " (pid " + std::to_string(pid) +
                                ") expired: " +
                                (request.signal > 0 ? "sending it " + SignalName(request.signal)
                                                    : "it asked for no signal"));
    if (request.signal > 0) {
      if (own) {
        timer_kills_[local] = request;
      }
      ::syscall(SYS_pidfd_send_signal, pidfd.get(), request.signal, nullptr, 0);
    }
    return;
  }
  if (pidfd && refused_timers_.size() < kMostRefusals && refused_timers_.insert(pid).second) {
    Log(LogLevel::kWarning, "ignoring watchdog timer '" + request.scope +
                                "', which expired: process " + std::to_string(pid) +
                                " was not started by a worker");
  }
}

// A worker that a tool holds gets no signal, so the taking of stacks is cancelled first.
void ProcessWorkers::SignalAll(int signal, bool end_at_once) {
  live_stacks_.Forget();
  // Before a scheduler's end every signal asks for it (agent/core/signals.h).
  const bool stops = AsksForTheEnd(signal) || options_->core.preemptible;
  kept_evidence_ |= stops && !death_begun_;
  survivors_.NoteHandlers();
  runner_.SignalAll(signal, end_at_once);
  if (end_at_once) {
    survivors_.Watch();
  }
}

void ProcessWorkers::KillAll() {
  live_stacks_.Forget();
  kept_evidence_ |= !death_begun_;
  survivors_.Forget();
  runner_.KillAll();
}

std::function<void()> ProcessWorkers::TakeLiveStacks(const RequestSpec& spec,
                                                     LiveStacks::Done done) {
  std::vector<LiveStacks::Target> targets;
  for (std::uint32_t local = 0; local < pids_.size(); ++local) {
    const pid_t pid = runner_.PidOf(local);
    const std::uint32_t rank = placement_.first_rank + local;
    if (pid != 0 && Wants(spec, rank)) {
      targets.push_back(
          {{.pid = pid, .notify = NotifySocketOfWorker(local)}, rank, placement_.generation.value});
    }
  }
  const std::uint64_t number = live_stacks_.Take(std::move(targets), std::move(done));
  return [this, number] { live_stacks_.GiveUp(number); };
}

std::vector<AnswerRecord> ProcessWorkers::TellToSave(const RequestSpec& spec) {
  std::vector<AnswerRecord> records;
  for (std::uint32_t local = 0; local < pids_.size(); ++local) {
    const std::uint32_t rank = placement_.first_rank + local;
    const pid_t pid = runner_.PidOf(local);
    if (pid == 0 || !Wants(spec, rank)) {
      continue;
    }
    const int signal = save_signals_[local];
    const bool told = signal != 0 && ::kill(pid, signal) == 0;
    records.push_back({UnixMilliseconds(), rank, placement_.generation.value,
                       told ? AnswerKind::kDone : AnswerKind::kNote,
                       told          ? SignalName(signal)
                       : signal == 0 ? "not asked: no SAVE_SIGNAL was announced (ddprun help "
                                       "writing-a-worker)"
                                     : "not asked: ending"});
  }
  return records;
}

// Bytes that a worker printed, for its bundle; the loop copies them.
std::size_t ProcessWorkers::MostLines() const {
  constexpr std::size_t kOfOne = 64 * 1024;
  constexpr std::size_t kOfAll = std::size_t{4} << 20;
  return std::min(kOfOne, kOfAll / std::max(options_->core.workers, 1U));
}

void ProcessWorkers::KeepEvidenceOfFailure() {
  if (std::exchange(kept_evidence_, true) || options_->evidence.empty()) {
    return;
  }
  NodePart part{.node = options_->core.node,
                .workers = {},
                .last_lines = {},
                .logs = options_->keep_logs ? attempt_ : std::filesystem::path()};
  std::vector<FailureEvidence::Recorder> recorders;
  for (std::uint32_t local = 0; local < options_->core.workers; ++local) {
    const std::uint32_t rank = placement_.first_rank + local;
    part.workers.push_back({rank, static_cast<pid_t>(pids_[local])});
    part.last_lines.emplace_back(rank, kept_->LastOf(local, MostLines()));
    recorders.push_back({rank, RecorderNamesIn(environment_, NotifySocketOfWorker(local))});
  }
  failure_evidence_.Keep(BundleOf(options_->evidence, placement_.generation), std::move(part),
                         std::move(recorders), began_, plan_);
}

void ProcessWorkers::WhenEvidenceIsKept(std::function<void()> done) {
  hang_evidence_.WhenWritten(
      [this, done = std::move(done)] { failure_evidence_.WhenWritten(done); });
}

void ProcessWorkers::TakeStacks(const std::vector<std::uint32_t>& local_ranks, Duration limit,
                                std::function<void()> done) {
  kept_evidence_ = true;
  live_stacks_.Forget();  // Two tools cannot hold one worker, and these are the last of it.
  hang_evidence_.Take(HangRequestFor(local_ranks), limit,
                      [this, done = std::move(done)](const HangEvidenceRequest& carried_out) {
                        if (!carried_out.bundle.empty()) {
                          SayWhereEvidenceIs(carried_out.bundle);
                          done();
                        } else if (!carried_out.workers.empty()) {
                          TellOfStacks(StacksOf(carried_out, carried_out.workers.front()), done);
                        } else {
                          done();
                        }
                      });
}

// Those that run.
HangEvidenceRequest ProcessWorkers::HangRequestFor(const std::vector<std::uint32_t>& local_ranks) {
  HangEvidenceRequest request{
      .bundle = options_->evidence.empty() ? std::filesystem::path()
                                           : BundleOf(options_->evidence, placement_.generation),
      .node = options_->core.node,
      .logs = options_->keep_logs ? attempt_ : std::filesystem::path(),
      .workers = {},
      .last_lines = [kept = kept_,
                     most = MostLines()](std::uint32_t local) { return kept->LastOf(local, most); },
      .may_abort = !environment_["PYTHONFAULTHANDLER"].empty(),
      .abort =
          [this](const HungWorker& worker) {
            if (runner_.PidOf(worker.local_rank) == worker.pid) {
              constexpr rlimit kNone{0, 0};  // Its stack is wanted, not its memory.
              ::prlimit(worker.pid, RLIMIT_CORE, &kNone, nullptr);
              ::kill(worker.pid, SIGABRT);
            }
          }};
  const bool stays = options_->directory_stays;
  for (const std::uint32_t local : local_ranks) {
    if (const pid_t pid = runner_.PidOf(local); pid != 0) {
      request.workers.push_back({pid, local, placement_.first_rank + local,
                                 WorkersFile(attempt_, local, kStacksFile, stays),
                                 stays ? WorkersFile(attempt_, local, "stderr.log", stays) : "",
                                 NotifySocketOfWorker(local),
                                 RecorderNamesIn(environment_, NotifySocketOfWorker(local))});
    }
  }
  return request;
}

void ProcessWorkers::KeepLiveEvidence(const RequestSpec& wanted, LiveStacks::Done done) {
  std::vector<std::uint32_t> locals;
  for (std::uint32_t local = 0; local < pids_.size(); ++local) {
    if (Wants(wanted, placement_.first_rank + local)) {
      locals.push_back(local);
    }
  }
  HangEvidenceRequest request = HangRequestFor(locals);
  // Answered also where it is superseded, or its workers end.
  const auto answer = std::make_shared<LiveEvidence>(loop_, std::move(done));
  for (const HungWorker& worker : request.workers) {
    answer->records.push_back(
        {UnixMilliseconds(), worker.rank, placement_.generation.value, AnswerKind::kNote, ""});
  }
  if (request.workers.empty() || request.bundle.empty() || kept_evidence_ ||
      !live_evidence_.expired()) {
    if (!kept_evidence_) {
      answer->Say(AnswerKind::kNote, request.bundle.empty()
                                         ? "no evidence is kept without --log-dir or --run-dir"
                                         : "its evidence is being kept already");
    }
    return;
  }
  live_evidence_ = answer;
  request.may_abort = false;
  request.take_live = [this, workers = request.workers](const std::vector<StackJob>& jobs,
                                                        std::function<void()> taken) {
    std::vector<LiveStacks::Target> targets;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      targets.push_back({jobs[i], workers[i].rank, placement_.generation.value});
    }
    live_stacks_.Take(std::move(targets), [taken = std::move(taken)](const auto&) { taken(); });
  };
  hang_evidence_.Take(std::move(request), Duration{0},
                      [answer](const HangEvidenceRequest& carried_out) {
                        if (!carried_out.failed.empty()) {
                          answer->Say(AnswerKind::kNote,
                                      "some of its evidence was not kept: " + carried_out.failed);
                        } else if (!carried_out.bundle.empty()) {
                          SayWhereEvidenceIs(carried_out.bundle);
                          answer->Say(AnswerKind::kDone, carried_out.bundle.native());
                        } else {
                          answer->Say(AnswerKind::kNote,
                                      "no evidence was kept: its directory could not be created");
                        }
                      });
}

std::string ProcessWorkers::NotifySocketOfWorker(std::uint32_t local_rank) const {
  if (!plan_ || local_rank >= plan_->sockets.paths().size()) {
    return "";
  }
  return plan_->sockets.paths()[local_rank];
}

// The files go with the run.
void ProcessWorkers::TellOfStacks(const std::filesystem::path& file, std::function<void()> done) {
  const auto text = std::make_shared<Result<std::string>>(std::string());
  loop_.RunBounded(
      RemainsReader::kLimit, [text, file] { *text = ReadOrdinary(file, 2 << 20); },
      [text, done = std::move(done)](bool in_time) {
        if (in_time && *text) {
          LogReport(LogLevel::kWarning, ForPeople(**text));
        } else {
          Log(LogLevel::kWarning,
              in_time ? text->error().message
                      : "the workers' stacks cannot be read: their file system is not responding");
        }
        done();
      });
}

}  // namespace ddprun

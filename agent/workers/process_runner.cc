#include "agent/workers/process_runner.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <set>
#include <utility>

#include "agent/workers/process_tree.h"
#include "agent/workers/template_output.h"
#include "agent/workers/wait_status.h"
#include "common/check.h"
#include "proto/stop_signal.h"

namespace ddprun {
namespace {

// SIGCHLD ends every wait below; this is for a process that changed parents, or was in execve,
// while we looked.
constexpr Duration kLookAgain{20};
constexpr Duration kTidySoon{250};

struct Worker {
  Worker(AsioLoop& loop, std::uint32_t rank) : local_rank(rank), pidfd(loop.io()), retry(loop) {}

  std::uint32_t local_rank;
  pid_t pid = 0;
  bool running = false;  // Not reaped: its process id and group are certainly its own.
  boost::asio::posix::stream_descriptor pidfd;
  LoopTimer retry;
  std::unique_ptr<WorkerOutput> output;
};

}  // namespace

// Shared with waits in flight; `closed` once the runner is gone.
class ProcessRunner::State : public std::enable_shared_from_this<State> {
 public:
  State(AsioLoop& loop, RunnerConfig config, RunnerEvents events);

  void Spawn(PrepareWorkers prepare, std::function<void(Result<void>)> started);
  void SignalAll(int signal, bool end_at_once);
  void KillAll();
  void Close();
  void WatchChildren();

  AsioLoop& loop;
  Consoles consoles;
  TemplateOutput templates;
  GenerationMaker maker;
  std::vector<std::unique_ptr<Worker>> workers;  // Empty, and none made: nothing is left.

 private:
  void Adopt(std::vector<MadeWorker> made);
  bool GiveUpStart();
  void WaitFor(Worker& worker);
  void OnEnded(Worker& worker);
  void LookSoon();
  void LookAtChildren();
  void FinishIfNothingIsLeft();
  bool IsTidiedSoon() const;
  void BeginDrain();
  void Finish();
  void ArmUnkillable();
  std::set<pid_t> RunningWorkers() const;

  RunnerConfig config_;
  RunnerEvents events_;
  boost::asio::signal_set child_signal_;
  bool look_is_due_ = false;
  bool look_was_missed_ = false;  // Orphans may have come while the generation was made.
  std::set<pid_t> ended_;  // Workers that ended and may have left processes in their sessions.
  LoopTimer look_again_;
  LoopTimer unkillable_;
  LoopTimer drain_limit_;
  bool killing_ = false;   // Nothing of the generation may live any longer.
  bool draining_ = false;  // No process is left; output is.
  Time tidy_until_;        // Python's resource_tracker is waited for.
  bool closed_ = false;
};

ProcessRunner::State::State(AsioLoop& loop_in, RunnerConfig config, RunnerEvents events)
    : loop(loop_in),
      consoles(loop_in, config.kept, config.progress),
      templates(loop_in, consoles),
      maker(loop_in, config.crowd_patience,
            config.warm ? std::make_shared<WarmStart>(*config.warm, templates.Reader()) : nullptr),
      config_(std::move(config)),
      events_(std::move(events)),
      child_signal_(loop_in.io(), SIGCHLD),
      look_again_(loop_in),
      unkillable_(loop_in),
      drain_limit_(loop_in) {}

void ProcessRunner::State::Spawn(PrepareWorkers prepare,
                                 std::function<void(Result<void>)> started) {
  loop.CheckOnLoop();
  CHECK(workers.empty());
  killing_ = draining_ = look_was_missed_ = false;
  ended_.clear();
  // Orphaned grandchildren come to us, so that they can be found.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    prepare = [error = SystemError("become the reaper of", "the workers' descendants", errno)](
                  Making&) -> Result<std::vector<WorkerSpec>> { return error; };
  }
  maker.Make(std::move(prepare), [this, started](Result<std::vector<MadeWorker>> made) {
    const Result<void> outcome = made ? Result<void>() : made.error();
    if (made) {
      Adopt(*std::move(made));
    }
    started(outcome);
  });
}

void ProcessRunner::State::Adopt(std::vector<MadeWorker> made) {
  for (MadeWorker& one : made) {
    auto worker = std::make_unique<Worker>(loop, one.spec.local_rank);
    worker->pid = one.process.pid;
    worker->running = true;
    worker->pidfd.assign(one.process.pidfd.Release());
    worker->output =
        std::make_unique<WorkerOutput>(loop, consoles, one.spec, std::move(one.output));
    workers.push_back(std::move(worker));
  }
  for (const auto& worker : workers) {
    worker->output->Start([weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->FinishIfNothingIsLeft();
      }
    });
    WaitFor(*worker);
  }
  if (look_was_missed_) {
    LookSoon();
  }
}

// True: there is no generation that hears signals.
bool ProcessRunner::State::GiveUpStart() {
  if (!maker.making()) {
    return workers.empty();
  }
  maker.GiveUp([weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && !self->closed_) {
      self->events_.on_all_gone();
    }
  });
  return true;
}

void ProcessRunner::State::WaitFor(Worker& worker) {
  worker.pidfd.async_wait(boost::asio::posix::descriptor_base::wait_read,
                          [weak = weak_from_this(), &worker](boost::system::error_code error) {
                            const auto self = weak.lock();
                            if (!error && self && !self->closed_) {
                              self->OnEnded(worker);
                            }
                          });
}

void ProcessRunner::State::OnEnded(Worker& worker) {
  int wait_status = 0;
  const pid_t reaped = ::waitpid(worker.pid, &wait_status, WNOHANG);
  if (reaped == 0) {  // A debugger has not let go of it yet.
    worker.retry.ArmAt(loop.Now() + kLookAgain, [this, &worker] { OnEnded(worker); });
    return;
  }
  CHECK(reaped == worker.pid);  // Nobody else takes a worker's status.
  worker.running = false;
  boost::system::error_code ignored;
  worker.pidfd.close(ignored);
  const bool last = RunningWorkers().empty();
  if (last) {
    killing_ = true;
    tidy_until_ = loop.Now() + kTidySoon;
    ArmUnkillable();
  }
  ended_.insert(worker.pid);
  events_.on_ended(worker.local_rank, DecodeWaitStatus(wait_status),
                   worker.output->TakeLastErrors());
  LookSoon();
}

// Once for all that end in one turn of the loop: each look reads the list of all children.
void ProcessRunner::State::LookSoon() {
  if (std::exchange(look_is_due_, true)) {
    return;
  }
  loop.Post([weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && !self->closed_) {
      self->look_is_due_ = false;
      self->LookAtChildren();
    }
  });
}

void ProcessRunner::State::WatchChildren() {
  child_signal_.async_wait([weak = weak_from_this()](boost::system::error_code error, int) {
    const auto self = weak.lock();
    if (!error && self && !self->closed_) {
      self->WatchChildren();
      self->LookSoon();
    }
  });
}

// Orphans that ended are reaped at any time; those that live are killed when nothing may live.
void ProcessRunner::State::LookAtChildren() {
  look_was_missed_ |= workers.empty();
  if (workers.empty() || draining_) {
    return;
  }
  if (killing_) {
    if (RunningWorkers().empty() && NothingIsLeft(Reach::kWhatWorkersLeave) && !IsTidiedSoon()) {
      BeginDrain();
      return;
    }
    SweepChildren(RunningWorkers(), Reach::kWhatWorkersLeave);
  } else {
    ReapChildren(RunningWorkers(), Reach::kWhatWorkersLeave);
    if (ended_.empty() ||
        SignalMembers(Within::kSession, ended_, RunningWorkers(), {SIGKILL}) == 0) {
      ended_.clear();
      return;
    }
  }
  look_again_.ArmAt(loop.Now() + kLookAgain, [this] { LookAtChildren(); });
}

// The next generation may use the same names in shared memory.
bool ProcessRunner::State::IsTidiedSoon() const {
  const std::vector<pid_t> living = ReapChildren({}, Reach::kWhatWorkersLeave);
  const auto tidies = [](pid_t pid) { return PurposeOf(pid) == Purpose::kTidySoon; };
  return loop.Now() < tidy_until_ && std::any_of(living.begin(), living.end(), tidies);
}

void ProcessRunner::State::BeginDrain() {
  draining_ = true;
  look_again_.Cancel();
  unkillable_.Cancel();
  const auto abandon = [this] {
    std::ranges::for_each(workers, [](const auto& worker) { worker->output->Abandon(); });
  };
  drain_limit_.ArmAt(loop.Now() + config_.drain_limit, [this, abandon] {
    abandon();
    Finish();
  });
  if (!ReapChildren({}, Reach::kWhatWorkersLeave).empty()) {
    abandon();  // What tidies up holds the pipes longer than the next generation should wait.
  }
  FinishIfNothingIsLeft();
}

void ProcessRunner::State::FinishIfNothingIsLeft() {
  const auto drained = [](const auto& worker) { return worker->output->drained(); };
  if (draining_ && !workers.empty() && std::all_of(workers.begin(), workers.end(), drained)) {
    Finish();
  }
}

void ProcessRunner::State::Finish() {
  const auto self = shared_from_this();  // The callback may destroy the runner.
  drain_limit_.Cancel();
  workers.clear();
  events_.on_all_gone();
}

void ProcessRunner::State::ArmUnkillable() {
  unkillable_.ArmAt(loop.Now() + config_.unkillable_after, [this] {
    std::set<pid_t> left = RunningWorkers();
    const std::vector<pid_t> strays = SweepChildren(left, Reach::kWhatWorkersLeave);
    left.insert(strays.begin(), strays.end());
    if (!left.empty()) {
      events_.on_unkillable({left.begin(), left.end()});
    }
  });
}

void ProcessRunner::State::SignalAll(int signal, bool end_at_once) {
  loop.CheckOnLoop();
  const bool wakes = signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
  if (wakes && GiveUpStart()) {
    return;
  }
  for (const auto& worker : workers) {
    if (worker->running) {
      if (end_at_once) {  // Before the other signal: of two pending ones the first one counts.
        ::sigqueue(worker->pid, signal, sigval{.sival_int = kEndAtOnce});
      }
      ::kill(worker->pid, signal);
      if (wakes) {
        ::kill(worker->pid, SIGCONT);
      }
    }
  }
  if (const std::set<pid_t> running = RunningWorkers(); !running.empty()) {
    SignalMembers(Within::kSession, running, {}, {signal, wakes ? SIGCONT : 0});
  }
}

void ProcessRunner::State::KillAll() {
  if (GiveUpStart()) {
    return;
  }
  SignalAll(SIGKILL, false);
  if (!std::exchange(killing_, true)) {
    ArmUnkillable();
  }
  SweepChildren(RunningWorkers(), Reach::kWhatWorkersLeave);
  look_again_.ArmAt(loop.Now() + kLookAgain, [this] { LookAtChildren(); });
}

void ProcessRunner::State::Close() {
  closed_ = true;
  maker.GiveUp([] {});
  for (const auto& worker : workers) {
    if (worker->running) {
      ::kill(worker->pid, SIGKILL);
    }
    boost::system::error_code ignored;
    worker->pidfd.close(ignored);
  }
  if (!workers.empty()) {
    SweepChildren({}, Reach::kWhatWorkersLeave);
  }
  boost::system::error_code ignored;
  child_signal_.cancel(ignored);
  look_again_.Cancel();
  unkillable_.Cancel();
  drain_limit_.Cancel();
}

std::set<pid_t> ProcessRunner::State::RunningWorkers() const {
  std::set<pid_t> pids;
  for (const auto& worker : workers) {
    if (worker->running) {
      pids.insert(worker->pid);
    }
  }
  return pids;
}

ProcessRunner::ProcessRunner(AsioLoop& loop, RunnerConfig config, RunnerEvents events)
    : state_(std::make_shared<State>(loop, config, std::move(events))) {
  state_->WatchChildren();
}

ProcessRunner::~ProcessRunner() {
  state_->Close();
}

void ProcessRunner::Spawn(PrepareWorkers prepare, std::function<void(Result<void>)> started) {
  state_->Spawn(std::move(prepare), std::move(started));
}

void ProcessRunner::SignalAll(int signal, bool end_at_once) {
  state_->SignalAll(signal, end_at_once);
}

void ProcessRunner::KillAll() {
  state_->KillAll();
}

bool ProcessRunner::Empty() const {
  return state_->workers.empty() && !state_->maker.making();
}

void ProcessRunner::Tidy(std::function<void()> work) {
  state_->maker.Tidy(std::move(work));
}

std::string ProcessRunner::Starting() const {
  return state_->maker.Step();
}

pid_t ProcessRunner::PidOf(std::uint32_t local_rank) const {
  for (const auto& worker : state_->workers) {
    if (worker->local_rank == local_rank && worker->running) {
      return worker->pid;
    }
  }
  return 0;
}

std::string ProcessRunner::Unread() const {
  return state_->consoles.Unread();
}

void ProcessRunner::FlushOutput(Duration limit) {
  state_->consoles.Flush(limit);
}

}  // namespace ddprun

#include "agent/workers/process_runner.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "agent/workers/process_tree.h"
#include "agent/workers/wait_status.h"
#include "common/check.h"
#include "proto/stop_signal.h"

namespace ddprun {
namespace {

constexpr Duration kTakeAgain{100};
constexpr int kNoSignal = 0;  // kill(2) only looks whether the process is there.

}  // namespace

ProcessRunner::ProcessRunner(AsioLoop& loop, RunnerConfig config, RunnerEvents events)
    : loop_(loop),
      config_(std::move(config)),
      events_(std::move(events)),
      consoles_(loop, config_.kept, config_.progress),
      warm_(config_.warm
                ? std::make_shared<WarmStart>(*config_.warm,
                                              [this](const WorkerSpec& spec, OpenedOutput output) {
                                                ReadPreload(spec, std::move(output));
                                              })
                : nullptr),
      maker_(loop, config_.crowd_patience, warm_),
      strays_(loop, config_.linger,
              {[this] { BeginDrain(); },
               [this](const StraysOfWorker& left) { events_.on_left(left); }}),
      drain_limit_(loop) {}

void ProcessRunner::Spawn(PrepareWorkers prepare, std::function<void(Result<void>)> started) {
  loop_.CheckOnLoop();
  CHECK(workers_.empty());
  draining_ = false;
  strays_.Expect();
  // Orphaned grandchildren become children of this process, so that they can be found.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    prepare = [error = SystemError("become the reaper of", "the workers' descendants", errno)](
                  const BeginStep&) -> Result<std::vector<WorkerSpec>> { return error; };
  }
  maker_.Make(std::move(prepare), [this, started](Result<std::vector<SpawnedWorker>> made) {
    const Result<void> outcome = made ? Result<void>() : made.error();
    if (made) {
      Adopt(*std::move(made));
    }
    started(outcome);
  });
}

void ProcessRunner::Adopt(std::vector<SpawnedWorker> made) {
  for (SpawnedWorker& one : made) {
    auto worker = std::make_unique<Worker>(loop_, one.spec.local_rank);
    worker->pid = one.process.pid;
    worker->running = true;
    worker->pidfd.assign(one.process.pidfd.Release());
    worker->output =
        std::make_unique<WorkerOutput>(loop_, consoles_, one.spec, std::move(one.output));
    workers_.push_back(std::move(worker));
  }
  for (const auto& worker : workers_) {
    worker->output->Start([this] { FinishIfNothingIsLeft(); });
    WaitFor(*worker);
  }
  std::map<pid_t, std::uint32_t> ranks;
  for (const auto& worker : workers_) {
    ranks.emplace(worker->pid, worker->local_rank);
  }
  strays_.Begin(std::move(ranks));
}

// On the maker's thread.
void ProcessRunner::ReadPreload(const WorkerSpec& spec, OpenedOutput output) {
  const auto opened = std::make_shared<OpenedOutput>(std::move(output));
  loop_.Post(life_.Guard([this, spec, opened] {
    preload_output_ = std::make_unique<WorkerOutput>(loop_, consoles_, spec, std::move(*opened));
    preload_output_->Start([] {});
  }));
}

// Gives up a start that is under way. True: there is no worker to signal.
bool ProcessRunner::GiveUpStart() {
  if (!maker_.making()) {
    return workers_.empty();
  }
  maker_.GiveUp(life_.Guard([this] { events_.on_all_gone(); }));
  return true;
}

void ProcessRunner::WaitFor(Worker& worker) {
  worker.pidfd.async_wait(boost::asio::posix::descriptor_base::wait_read,
                          life_.Guard([this, &worker](boost::system::error_code error) {
                            if (!error) {
                              OnEnded(worker);
                            }
                          }));
}

void ProcessRunner::OnEnded(Worker& worker) {
  int wait_status = 0;
  const pid_t reaped = ::waitpid(worker.pid, &wait_status, WNOHANG);
  if (reaped == 0) {  // A debugger still holds it.
    worker.retry.ArmAt(loop_.Now() + kTakeAgain, [this, &worker] { OnEnded(worker); });
    return;
  }
  CHECK(reaped == worker.pid);  // No other code takes a worker's status.
  worker.running = false;
  boost::system::error_code ignored;
  worker.pidfd.close(ignored);
  const ExitStatus status = DecodeWaitStatus(wait_status);
  events_.on_ended(worker.local_rank, status, worker.output->TakeLastErrors());
  strays_.Ended(worker.pid, Succeeded(status));
}

void ProcessRunner::BeginDrain() {
  draining_ = true;
  const auto abandon = [this] {
    std::ranges::for_each(workers_, [](const auto& worker) { worker->output->Abandon(); });
  };
  drain_limit_.ArmAt(loop_.Now() + config_.drain_limit, [this, abandon] {
    abandon();
    Finish();
  });
  if (!ReapChildren({}, Reach::kWhatWorkersLeave).empty()) {
    abandon();  // A tidying process holds the pipes longer than the next generation should wait.
  }
  FinishIfNothingIsLeft();
}

void ProcessRunner::FinishIfNothingIsLeft() {
  const auto drained = [](const auto& worker) { return worker->output->drained(); };
  if (draining_ && !workers_.empty() && std::all_of(workers_.begin(), workers_.end(), drained)) {
    Finish();
  }
}

void ProcessRunner::Finish() {
  drain_limit_.Cancel();
  workers_.clear();
  events_.on_all_gone();
}

void ProcessRunner::SignalAll(int signal, bool end_at_once) {
  loop_.CheckOnLoop();
  const bool stops = signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
  if (stops && GiveUpStart()) {
    return;
  }
  std::set<pid_t> sessions = stops ? Sessions() : RunningWorkers();
  for (const auto& worker : workers_) {
    if (worker->dying && signal != SIGKILL) {  // Its children may linger.
      sessions.erase(worker->pid);
    }
  }
  // Before a worker gets the signal. Once it dies of it, processes below it change their place in
  // the tree; once it has passed it on to them, their handlers may be gone.
  const std::vector<pid_t> descendants = DescendantsOf(::getpid(), {});
  if (stops) {
    SignalMembers(Within::kSession, sessions, descendants, {kNoSignal},
                  [this, signal](pid_t pid) { strays_.WillAsk(pid, signal); });
  }
  for (const auto& worker : workers_) {
    if (worker->running) {
      // Once: a shell that waits again after the first signal would not wait after a second.
      if (!end_at_once || ::sigqueue(worker->pid, signal, sigval{.sival_int = kEndAtOnce}) != 0) {
        ::kill(worker->pid, signal);
      }
      if (stops) {
        ::kill(worker->pid, SIGCONT);
      }
    }
  }
  if (!stops && signal != SIGKILL) {
    // USR1 asks the worker to save: a process of its DataLoader would die of it, or save too.
    return;
  }
  strays_.Signal(signal);
  SignalMembers(Within::kSession, sessions, descendants, {signal, stops ? SIGCONT : kNoSignal});
}

void ProcessRunner::KillAll() {
  if (GiveUpStart()) {
    return;
  }
  SignalAll(SIGKILL, false);
  strays_.KillAll();
}

void ProcessRunner::SetWindows() {
  consoles_.LookAtWindows();
  for (const auto& worker : workers_) {
    worker->output->SetWindows();
    if (worker->running) {  // Its terminal controls no process group: the kernel signals none.
      ::kill(worker->pid, SIGWINCH);
    }
  }
}

ProcessRunner::~ProcessRunner() {
  maker_.GiveUp([] {});
  for (const auto& worker : workers_) {
    if (worker->running) {
      ::kill(worker->pid, SIGKILL);
    }
    boost::system::error_code ignored;
    worker->pidfd.close(ignored);
  }
}

std::set<pid_t> ProcessRunner::RunningWorkers() const {
  std::set<pid_t> pids;
  for (const auto& worker : workers_) {
    if (worker->running) {
      pids.insert(worker->pid);
    }
  }
  return pids;
}

std::set<pid_t> ProcessRunner::Sessions() const {
  std::set<pid_t> sessions = RunningWorkers();
  sessions.merge(strays_.AskedSessions());
  return sessions;
}

void ProcessRunner::LookForPreload() {
  const std::set<pid_t> running = RunningWorkers();
  if (!running.empty()) {
    maker_.LookAt({running.begin(), running.end()});
  }
}

void ProcessRunner::NoteDying(std::uint32_t local_rank) {
  for (const auto& worker : workers_) {
    worker->dying |= worker->local_rank == local_rank;
  }
}

pid_t ProcessRunner::PidOf(std::uint32_t local_rank) const {
  for (const auto& worker : workers_) {
    if (worker->local_rank == local_rank && worker->running) {
      return worker->pid;
    }
  }
  return 0;
}

}  // namespace ddprun

#include "agent/workers/process_runner.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include "agent/workers/process_tree.h"
#include "agent/workers/template_output.h"
#include "agent/workers/wait_status.h"
#include "common/check.h"
#include "proto/stop_signal.h"

namespace ddprun {
namespace {

constexpr Duration kTakeAgain{100};

struct Worker {
  Worker(AsioLoop& loop, std::uint32_t rank) : local_rank(rank), pidfd(loop.io()), retry(loop) {}

  std::uint32_t local_rank;
  pid_t pid = 0;
  bool running = false;  // Not reaped: its process id and group cannot be another process's.
  bool dying = false;    // ProcessRunner::NoteDying.
  boost::asio::posix::stream_descriptor pidfd;
  LoopTimer retry;
  std::unique_ptr<WorkerOutput> output;
};

}  // namespace

// Shared with pending waits; `closed_` once the runner is gone.
class ProcessRunner::State : public std::enable_shared_from_this<State> {
 public:
  State(AsioLoop& loop, RunnerConfig config, RunnerEvents events);

  void Spawn(PrepareWorkers prepare, std::function<void(Result<void>)> started);
  void SignalAll(int signal, bool end_at_once);
  void KillAll();
  void SetWindows();
  void Close();
  void WatchStrays() { strays_->Watch(); }
  std::set<pid_t> RunningWorkers() const;

  AsioLoop& loop;
  Consoles consoles;
  TemplateOutput templates;
  GenerationMaker maker;
  std::vector<std::unique_ptr<Worker>> workers;  // Empty, and none made: none is left.

 private:
  void Adopt(std::vector<SpawnedWorker> made);
  bool GiveUpStart();
  void WaitFor(Worker& worker);
  void OnEnded(Worker& worker);
  void FinishIfNothingIsLeft();
  void BeginDrain();
  void Finish();

  RunnerConfig config_;
  RunnerEvents events_;
  const std::shared_ptr<Strays> strays_;
  LoopTimer drain_limit_;
  bool draining_ = false;  // No process is left, but output may be.
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
      strays_(std::make_shared<Strays>(
          loop_in, config_.linger,
          Strays::Events{[this] { BeginDrain(); },
                         [this](const StraysOfWorker& left) { events_.on_left(left); }})),
      drain_limit_(loop_in) {}

void ProcessRunner::State::Spawn(PrepareWorkers prepare,
                                 std::function<void(Result<void>)> started) {
  loop.CheckOnLoop();
  CHECK(workers.empty());
  draining_ = false;
  strays_->Expect();
  // Orphaned grandchildren become children of this process, so that they can be found.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    prepare = [error = SystemError("become the reaper of", "the workers' descendants", errno)](
                  SpawnContext&) -> Result<std::vector<WorkerSpec>> { return error; };
  }
  maker.Make(std::move(prepare), [this, started](Result<std::vector<SpawnedWorker>> made) {
    const Result<void> outcome = made ? Result<void>() : made.error();
    if (made) {
      Adopt(*std::move(made));
    }
    started(outcome);
  });
}

void ProcessRunner::State::Adopt(std::vector<SpawnedWorker> made) {
  for (SpawnedWorker& one : made) {
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
  std::map<pid_t, std::uint32_t> ranks;
  for (const auto& worker : workers) {
    ranks.emplace(worker->pid, worker->local_rank);
  }
  strays_->Begin(std::move(ranks));
}

// Gives up a start that is under way. True: there is no worker to signal.
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
  if (reaped == 0) {  // A debugger still holds it.
    worker.retry.ArmAt(loop.Now() + kTakeAgain, [this, &worker] { OnEnded(worker); });
    return;
  }
  CHECK(reaped == worker.pid);  // No other code takes a worker's status.
  worker.running = false;
  boost::system::error_code ignored;
  worker.pidfd.close(ignored);
  const ExitStatus status = DecodeWaitStatus(wait_status);
  events_.on_ended(worker.local_rank, status, worker.output->TakeLastErrors());
  strays_->Ended(worker.pid, Succeeded(status));
}

void ProcessRunner::State::BeginDrain() {
  draining_ = true;
  const auto abandon = [this] {
    std::ranges::for_each(workers, [](const auto& worker) { worker->output->Abandon(); });
  };
  drain_limit_.ArmAt(loop.Now() + config_.drain_limit, [this, abandon] {
    abandon();
    Finish();
  });
  if (!ReapChildren({}, Reach::kWhatWorkersLeave).empty()) {
    abandon();  // A tidying process holds the pipes longer than the next generation should wait.
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

void ProcessRunner::State::SignalAll(int signal, bool end_at_once) {
  loop.CheckOnLoop();
  const bool wakes = signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
  if (wakes && GiveUpStart()) {
    return;
  }
  for (const auto& worker : workers) {
    if (worker->running) {
      // Once: a shell that waits again after the first signal would not wait after a second.
      if (!end_at_once || ::sigqueue(worker->pid, signal, sigval{.sival_int = kEndAtOnce}) != 0) {
        ::kill(worker->pid, signal);
      }
      if (wakes) {
        ::kill(worker->pid, SIGCONT);
      }
    }
  }
  strays_->Signal(signal);
  std::set<pid_t> sessions = RunningWorkers();
  for (const auto& worker : workers) {
    if (worker->dying && signal != SIGKILL) {  // Its children may linger.
      sessions.erase(worker->pid);
    }
  }
  if (!sessions.empty()) {
    SignalMembers(Within::kSession, sessions, {}, {signal, wakes ? SIGCONT : 0});
  }
}

void ProcessRunner::State::KillAll() {
  if (GiveUpStart()) {
    return;
  }
  SignalAll(SIGKILL, false);
  strays_->KillAll();
}

void ProcessRunner::State::SetWindows() {
  consoles.LookAtWindows();
  for (const auto& worker : workers) {
    worker->output->SetWindows();
    if (worker->running) {  // Its terminal controls no process group: the kernel signals none.
      ::kill(worker->pid, SIGWINCH);
    }
  }
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
  strays_->Close();
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
  state_->WatchStrays();
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

void ProcessRunner::SetWindows() {
  state_->SetWindows();
}

bool ProcessRunner::Empty() const {
  return state_->workers.empty() && !state_->maker.making();
}

void ProcessRunner::Cleanup(std::function<void()> work) {
  state_->maker.Cleanup(std::move(work));
}

std::string ProcessRunner::Starting() const {
  return state_->maker.Step();
}

void ProcessRunner::LookForTemplate() {
  const std::set<pid_t> running = state_->RunningWorkers();
  if (!running.empty()) {
    state_->maker.LookAt({running.begin(), running.end()});
  }
}

void ProcessRunner::NoteDying(std::uint32_t local_rank) {
  for (const auto& worker : state_->workers) {
    worker->dying |= worker->local_rank == local_rank;
  }
}

pid_t ProcessRunner::KeepTemplate() {
  return state_->maker.KeepTemplate();
}

std::string ProcessRunner::TemplateState() const {
  return state_->maker.TemplateState();
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

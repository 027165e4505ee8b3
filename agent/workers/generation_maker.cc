#include "agent/workers/generation_maker.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "agent/workers/process_tree.h"
#include "common/check.h"
#include "common/slug.h"

namespace ddprun {
namespace {

// Queues of all makers that were given up in a step that hangs, and have not come back.
constexpr int kMostStuck = 64;
std::atomic<int> stuck = 0;
constexpr Duration kPatience{1'000};  // How long the destructor waits for Cleanup's work.
constexpr Duration kFirstPause{50};   // Before a process is tried again; then twice as long, up to
constexpr Duration kLongestPause{2'000};

// Kills these workers and all that they left. Blocks until SIGKILL has ended them.
void EndBegun(const std::vector<SpawnedWorker>& begun) {
  for (const SpawnedWorker& worker : begun) {
    ::kill(worker.process.pid, SIGKILL);
  }
  for (const SpawnedWorker& worker : begun) {
    ::waitpid(worker.process.pid, nullptr, 0);
  }
  while (!SweepChildren({}, Reach::kWhatWorkersLeave).empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Error NotStarted(const WorkerSpec& spec, Error error) {
  error.message = "worker with local rank " + std::to_string(spec.local_rank) +
                  " did not start: " + error.message;
  return error;
}

}  // namespace

struct GenerationMaker::Job {
  // ---- On the thread ----
  Result<void> Begin(std::string next);
  void Make(const std::shared_ptr<Job>& self);
  void EndMade(const std::shared_ptr<Job>& self);
  Result<std::vector<SpawnedWorker>> Prepare();
  Result<void> Launch(std::vector<SpawnedWorker>& workers);
  Result<LaunchedWorker> LaunchPatiently(const SpawnedWorker& worker);
  Result<LaunchedWorker> LaunchOnce(const SpawnedWorker& worker);
  void Tell(const std::shared_ptr<Job>& self);

  // ---- On the loop ----
  bool GiveUp();  // False: no process was started, and none will be.
  void Forget();
  std::function<void(Result<std::vector<SpawnedWorker>>)> made;
  std::function<void()> gone;  // Set: it was given up.
  GenerationMaker* maker = nullptr;

  // ---- With the lock ----
  std::mutex mutex;
  std::string step;
  bool launching = false;      // Processes may have been started.
  std::vector<pid_t> leaders;  // Workers that were started and not reaped.
  Loop* loop = nullptr;        // nullptr: the result is not wanted any more.

  PrepareWorkers prepare;
  Duration patience{0};
  std::shared_ptr<WarmStart> warm;
  LaunchUnderWay under_way;
  Result<std::vector<SpawnedWorker>> result =
      std::vector<SpawnedWorker>();  // The thread's, until Tell.
};

Result<void> GenerationMaker::Job::Begin(std::string next) {
  const std::lock_guard lock(mutex);
  step = std::move(next);
  return under_way.given_up()
             ? Result<void>(Error{ErrorKind::kUnavailable, "the start was cancelled"})
             : Result<void>();
}

void GenerationMaker::Job::Make(const std::shared_ptr<Job>& self) {
  result = Prepare();
  if (result) {
    if (const Result<void> launched = Launch(*result); !launched) {
      std::vector<SpawnedWorker> begun = *std::move(result);
      std::erase_if(begun, [](const SpawnedWorker& worker) { return worker.process.pid == 0; });
      {
        const std::lock_guard lock(mutex);
        leaders.clear();
        step = "waiting for the end of workers that were killed";
      }
      EndBegun(begun);
      result = launched.error();
    }
  }
  prepare = nullptr;
  Tell(self);
}

Result<std::vector<SpawnedWorker>> GenerationMaker::Job::Prepare() {
  ASSIGN_OR_RETURN(std::vector<WorkerSpec> specs,
                   prepare([this](std::string next) { return Begin(std::move(next)); }));
  std::vector<SpawnedWorker> workers;
  for (WorkerSpec& spec : specs) {
    RETURN_IF_ERROR(Begin("opening the output of local rank " + std::to_string(spec.local_rank) +
                          (spec.err.file.empty() ? "" : ", '" + spec.err.file.native() + "'")));
    Result<OpenedOutput> output = OpenOutput(spec, specs.size() == 1 || spec.terminal);
    if (!output) {
      return NotStarted(spec, output.error());
    }
    workers.push_back({std::move(spec), {}, *std::move(output)});
  }
  return workers;
}

Result<void> GenerationMaker::Job::Launch(std::vector<SpawnedWorker>& workers) {
  {
    const std::lock_guard lock(mutex);
    launching = !under_way.given_up();
  }
  if (warm) {
    RETURN_IF_ERROR(Begin(warm->WaitsFor()));
    warm->Await(under_way);
  }
  for (SpawnedWorker& worker : workers) {
    Result<LaunchedWorker> process = LaunchPatiently(worker);
    if (!process) {
      return NotStarted(worker.spec, process.error());
    }
    worker.process = *std::move(process);
    worker.output.child_ends.clear();
    const std::lock_guard lock(mutex);
    leaders.push_back(worker.process.pid);
  }
  return Begin("");
}

Result<LaunchedWorker> GenerationMaker::Job::LaunchPatiently(const SpawnedWorker& worker) {
  Duration waited{0};
  Duration pause = kFirstPause;
  while (true) {
    RETURN_IF_ERROR(Begin("executing '" + worker.spec.command.file.native() + "'"));
    Result<LaunchedWorker> process = LaunchOnce(worker);
    if (process || process.error().kind != ErrorKind::kUnavailable) {
      return process;
    }
    pause = std::min(pause, patience - waited);
    if (pause <= Duration{0}) {
      return Error{
          ErrorKind::kUnavailable,
          Continue(process.error().message, "; tried again for " + FormatDuration(waited))};
    }
    RETURN_IF_ERROR(Begin("trying again for up to " + FormatDuration(patience) + ": " +
                          WithoutSlug(process.error().message)));
    pollfd given_up{under_way.wake(), POLLIN, 0};
    ::poll(&given_up, 1, static_cast<int>(pause.count()));
    waited += pause;
    pause = std::min(2 * pause, kLongestPause);
  }
}

Result<LaunchedWorker> GenerationMaker::Job::LaunchOnce(const SpawnedWorker& worker) {
  return warm ? warm->Launch(worker.spec, worker.output.stdio, under_way)
              : LaunchWorker(worker.spec, worker.output.stdio, &under_way);
}

void GenerationMaker::Job::EndMade(const std::shared_ptr<Job>& self) {
  {
    const std::lock_guard lock(mutex);
    leaders.clear();
  }
  EndBegun(*result);
  result = std::vector<SpawnedWorker>();
  Tell(self);
}

void GenerationMaker::Job::Tell(const std::shared_ptr<Job>& self) {
  const std::lock_guard lock(mutex);
  if (loop != nullptr) {
    loop->Post([self] {
      if (self->maker != nullptr) {
        self->maker->OnDone(self);
      }
    });
  }
}

bool GenerationMaker::Job::GiveUp() {
  under_way.GiveUp();
  const std::lock_guard lock(mutex);
  for (const pid_t leader : leaders) {
    ::kill(leader, SIGKILL);
  }
  return launching;
}

void GenerationMaker::Job::Forget() {
  made = nullptr;
  gone = nullptr;
  maker = nullptr;
  const std::lock_guard lock(mutex);
  loop = nullptr;
}

GenerationMaker::GenerationMaker(Loop& loop, Duration patience, std::shared_ptr<WarmStart> warm)
    : loop_(loop), patience_(patience), warm_(std::move(warm)) {
  if (warm_) {
    (void)queue_->Post([warm = warm_] { warm->Prepare(); });
  }
}

GenerationMaker::~GenerationMaker() {
  if (warm_) {
    warm_->Close();
  }
  if (job_) {
    job_->GiveUp();
    job_->Forget();
  }
  (void)queue_->Drain(kPatience);
}

void GenerationMaker::Cleanup(std::function<void()> work) {
  (void)queue_->Post(std::move(work));
}

void GenerationMaker::LookAt(std::vector<pid_t> workers) {
  if (warm_ && warm_->automatic() && queue_->Idle()) {
    (void)queue_->Post([warm = warm_, workers = std::move(workers)] { warm->Look(workers); });
  }
}

void GenerationMaker::Make(PrepareWorkers prepare,
                           std::function<void(Result<std::vector<SpawnedWorker>>)> made) {
  loop_.CheckOnLoop();
  CHECK(job_ == nullptr);
  job_ = std::make_shared<Job>();
  job_->made = std::move(made);
  job_->maker = this;
  job_->loop = &loop_;
  job_->prepare = std::move(prepare);
  job_->patience = patience_;
  job_->warm = warm_;
  const bool posted = stuck < kMostStuck && queue_->Post([job = job_] {
    job->Make(job);
    if (job->warm) {
      job->warm->Prepare();  // A new preload process, if the last one has ended.
    }
  });
  if (posted) {
    return;
  }
  job_->result = Error{ErrorKind::kUnavailable,
                       "no thread can be had that starts them (" + std::to_string(stuck) +
                           " earlier ones wait for file systems that are not responding)"};
  job_->Tell(job_);
}

void GenerationMaker::GiveUp(std::function<void()> gone) {
  if (!job_) {
    return;
  }
  if (job_->GiveUp()) {
    job_->gone = job_->gone ? std::move(job_->gone) : std::move(gone);
    return;
  }
  job_->Forget();
  job_.reset();
  ++stuck;
  (void)queue_->Post([end = std::shared_ptr<void>(nullptr, [](void*) { --stuck; })] {});
  queue_ = std::make_unique<TaskQueue>();
  loop_.Post(std::move(gone));
}

void GenerationMaker::OnDone(const std::shared_ptr<Job>& job) {
  if (job->gone && job->result && !job->result->empty()) {
    (void)queue_->Post([job] { job->EndMade(job); });
    return;
  }
  const auto made = std::move(job->made);
  const auto gone = std::move(job->gone);
  Result<std::vector<SpawnedWorker>> result = std::move(job->result);
  job->Forget();
  job_.reset();
  if (gone) {
    gone();
  } else {
    made(std::move(result));
  }
}

std::string GenerationMaker::Step() const {
  if (!job_) {
    return "";
  }
  const std::lock_guard lock(job_->mutex);
  return job_->step.empty() ? "beginning" : job_->step;  // "": its thread has not begun yet.
}

}  // namespace ddprun

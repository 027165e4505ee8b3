#include "trainer/profiler/profiler.h"

#include <mutex>
#include <optional>
#include <utility>

#include "common/log.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/disk/disk_wait.h"

namespace ddprun {
namespace {

constexpr std::size_t kTableRows = 25;

}  // namespace

struct Profiler::Trace {
  std::filesystem::path path;
  std::mutex mutex;  // Of all below.
  std::optional<std::string> waiting;
  std::size_t bytes = 0;  // Of the newest.
  std::optional<Error> failed;

  void Write() {
    std::optional<std::string> text;
    {
      const std::lock_guard lock(mutex);
      text.swap(waiting);
    }
    const Result<std::uint64_t> written = RealFileSystem().Write(path, {*text});
    const std::lock_guard lock(mutex);
    failed = written ? std::nullopt : std::optional(written.error());  // Of all until now.
  }
};

Result<Profiler> Profiler::Open(const std::filesystem::path& directory,
                                const ProfileSchedule& schedule, const WorkerEnv& env) {
  Profiler profiler;
  profiler.schedule_ = schedule;
  profiler.rank_ = env.rank;
  profiler.trace_ = std::make_shared<Trace>();
  profiler.trace_->path = directory / ("trace-generation-" + std::to_string(env.generation.value) +
                                       "-rank-" + std::to_string(env.rank) + ".json");
  profiler.thread_ = std::make_unique<TaskQueue>();
  profiler.thread_->Post([trace = profiler.trace_] {
    const Result<void> made = RealFileSystem().MakeDirectory(trace->path.parent_path());
    const std::lock_guard lock(trace->mutex);
    trace->failed = made ? std::nullopt : std::optional(made.error());
  });
  (void)profiler.thread_->Drain(kMostOpening);
  const std::lock_guard lock(profiler.trace_->mutex);
  if (profiler.trace_->failed) {
    return *profiler.trace_->failed;
  }
  return profiler;
}

void Profiler::BeginStep() {
  const ProfilePhase phase = PhaseAt(schedule_, step_);
  if (phase == ProfilePhase::kOff) {
    recorder_.reset();
  } else if (!recorder_) {
    recorder_ = std::make_unique<OperatorRecorder>();
  }
}

void Profiler::EndStep() {
  if (recorder_) {
    std::vector<ProfiledEvent> events = recorder_->Take();
    if (PhaseAt(schedule_, step_) == ProfilePhase::kActive) {
      events_.insert(events_.end(), std::make_move_iterator(events.begin()),
                     std::make_move_iterator(events.end()));
      written_ = false;
    }
  }
  const bool due = MakesTrace();
  ++step_;
  if (due && !written_) {
    Write();
  }
}

bool Profiler::MakesTrace() const {
  return PhaseAt(schedule_, step_) == ProfilePhase::kActive &&
         PhaseAt(schedule_, step_ + 1) != ProfilePhase::kActive;
}

void Profiler::Finish() {
  Stop();
  if (!written_) {
    Write();
  }
}

void Profiler::Write() {
  written_ = true;
  if (rank_ == 0) {
    LogAsIs(OperatorTable(events_, kTableRows));
  }
  std::string text = ChromeTrace(events_, rank_);
  const std::lock_guard lock(trace_->mutex);
  trace_->bytes = text.size();
  if (!std::exchange(trace_->waiting, std::move(text))) {  // Else a call for it waits already.
    thread_->Post([trace = trace_] { trace->Write(); });
  }
}

Result<void> Profiler::Flush() {
  std::unique_lock lock(trace_->mutex);
  const std::chrono::milliseconds limit = kMostFlushing + TimeFor(trace_->bytes);
  lock.unlock();
  const bool done = thread_->Drain(limit);
  lock.lock();
  if (trace_->failed) {
    return *trace_->failed;
  }
  if (!done) {
    return Error{ErrorKind::kSystem,
                 "cannot write the profile to '" + trace_->path.native() + "' in time"};
  }
  return {};
}

}  // namespace ddprun

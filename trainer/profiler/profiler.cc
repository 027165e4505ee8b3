#include "trainer/profiler/profiler.h"

#include <cstdio>
#include <utility>

#include "trainer/checkpoint/file_system.h"

namespace ddprun {
namespace {

constexpr std::size_t kTableRows = 25;

}  // namespace

Result<Profiler> Profiler::Open(const std::filesystem::path& directory,
                                const ProfileSchedule& schedule, const WorkerEnv& env) {
  Profiler profiler;
  profiler.directory_ = directory;
  profiler.schedule_ = schedule;
  profiler.rank_ = env.rank;
  profiler.generation_ = env.generation.value;
  if (!directory.empty()) {
    RETURN_IF_ERROR(RealFileSystem().MakeDirectory(directory));
  }
  return profiler;
}

void Profiler::BeginStep() {
  if (directory_.empty()) {
    return;
  }
  const ProfilePhase phase = PhaseAt(schedule_, step_);
  if (phase == ProfilePhase::kOff) {
    recorder_.reset();
  } else if (!recorder_) {
    recorder_ = std::make_unique<OperatorRecorder>();
  }
}

Result<void> Profiler::EndStep() {
  if (directory_.empty()) {
    return {};
  }
  if (recorder_) {
    std::vector<ProfiledEvent> events = recorder_->Take();
    if (PhaseAt(schedule_, step_) == ProfilePhase::kActive) {
      events_.insert(events_.end(), std::make_move_iterator(events.begin()),
                     std::make_move_iterator(events.end()));
      written_ = false;
    }
  }
  ++step_;
  if (!written_ && PhaseAt(schedule_, step_) != ProfilePhase::kActive) {
    return Write();
  }
  return {};
}

Result<void> Profiler::Finish() {
  recorder_.reset();
  return written_ ? Result<void>() : Write();
}

Result<void> Profiler::Write() {
  written_ = true;
  if (rank_ == 0) {
    std::fputs(OperatorTable(events_, kTableRows).c_str(), stderr);
  }
  const std::filesystem::path path =
      directory_ / ("trace-generation-" + std::to_string(generation_) + "-rank-" +
                    std::to_string(rank_) + ".json");
  RETURN_IF_ERROR(RealFileSystem().Write(path, {ChromeTrace(events_, rank_)}));
  return {};
}

}  // namespace ddprun

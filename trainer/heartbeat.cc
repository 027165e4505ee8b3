#include "trainer/heartbeat.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "common/format.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kInterval{100};

constexpr std::uint64_t kLeastExtension = 60;  // Seconds.

std::string Extension(std::uint64_t seconds) {
  return "EXTEND_TIMEOUT_USEC=" + std::to_string(seconds) + "000000\n";
}

}  // namespace

void Heartbeat::Resume(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  step_.store(step, std::memory_order_relaxed);
  const std::string number = std::to_string(step);
  notifier_.Send("RESUME=" + number + "\nSTEP=" + number + "\n");
  told_step_ = step;
  first_ = true;
}

std::string Heartbeat::StepLines(std::uint64_t step) {
  const std::int64_t work = least_work_.exchange(kNoWork, std::memory_order_relaxed);
  return "STEP=" + std::to_string(step) + "\n" +
         (work == kNoWork ? "" : "WORK_USEC=" + std::to_string(work) + "\n");
}

void Heartbeat::TellFirst(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  first_ = false;
  notifier_.Send(StepLines(step));
  told_step_ = step;
}

void Heartbeat::Report(const TrainReport& report) {
  std::string lines =
      Format("LOSS=%.6g\nSAMPLES_PER_S=%.6g\n", report.loss, report.samples_per_second);
  if (report.last_checkpoint) {
    lines += "CHECKPOINT=" + std::to_string(*report.last_checkpoint) + "\n";
  }
  if (report.total_steps > 0) {
    lines += "STEPS=" + std::to_string(report.total_steps) + "\n";
  }
  notifier_.Send(lines);
}

void Heartbeat::Extend() {
  if (const TrainPhase* const now = phase(); now != nullptr) {
    notifier_.Send(Extension(std::max(now->may_last_seconds, kLeastExtension)));
  }
}

void Heartbeat::Run(const std::stop_token& end) {
  const TrainPhase* told_phase = nullptr;
  std::unique_lock lock(mutex_);
  do {
    const std::uint64_t step = step_.load(std::memory_order_relaxed);
    const TrainPhase* const phase = phase_.load(std::memory_order_relaxed);
    std::string lines;
    if (step != told_step_) {
      lines = StepLines(step);
    }
    if (phase != told_phase) {
      lines += std::string("PHASE=") + phase->name + "\n";
      if (phase->may_last_seconds > 0) {
        lines += Extension(phase->may_last_seconds);
      }
    }
    if (!lines.empty()) {
      notifier_.Send(lines);
    }
    told_step_ = step;
    told_phase = phase;
  } while (!ends_.wait_for(lock, end, kInterval, [&end] { return end.stop_requested(); }));
}

}  // namespace ddprun

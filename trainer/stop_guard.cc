#include "trainer/stop_guard.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "common/log.h"
#include "common/time.h"
#include "proto/exit_code.h"
#include "trainer/stop_request.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kInterval{200};

}  // namespace

bool OverdueStop::Look(Time now, std::uint64_t step, bool stepping, bool asked_to_stop) {
  if (step != step_) {
    longest_ = std::max<std::chrono::nanoseconds>(longest_, now - step_since_);
    step_since_ = now;
  }
  if (step != step_ || !stepping || asked_to_stop != asked_) {
    since_ = now;
  }
  if (!stepping) {
    step_since_ = now;
  }
  step_ = step;
  asked_ = asked_to_stop;
  return asked_ && now - since_ > kPatience + 2 * longest_;
}

StopGuard::StopGuard(const Heartbeat& heartbeat) : heartbeat_(heartbeat) {
  thread_ = std::thread([this] { Run(); });
}

StopGuard::~StopGuard() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

void StopGuard::Run() {
  using Clock = std::chrono::steady_clock;
  OverdueStop stop(Clock::now());
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, kInterval, [this] { return end_; })) {
    const TrainPhase* const phase = heartbeat_.phase();
    const bool stepping = phase == &kStepPhase || phase == &kDataPhase;
    if (stop.Look(Clock::now(), heartbeat_.step(), stepping, StopRequest::Signal().has_value())) {
      Log(LogLevel::kError,
          "asked to stop, but step " + std::to_string(heartbeat_.step() + 1) +
              " does not end: a peer hangs. Ending without saving; the last checkpoint stays");
      std::fflush(nullptr);
      _exit(kExitRestart);
    }
  }
}

}  // namespace ddprun

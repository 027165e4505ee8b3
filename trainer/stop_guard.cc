#include "trainer/stop_guard.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "common/exit_code.h"
#include "common/log.h"
#include "common/time.h"
#include "trainer/stop_request.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kLookInterval{200};

RankIs WhatItIs(const TrainPhase* phase) {
  if (phase == &kStepPhase || phase == &kDataPhase) {
    return RankIs::kStepping;
  }
  return phase == &kEvaluatedPhase ? RankIs::kWaiting : RankIs::kBusy;
}

}  // namespace

bool OverdueStop::Look(Time now, std::uint64_t step, RankIs is, bool asked_to_stop) {
  if (step != step_) {
    longest_ = std::max<std::chrono::nanoseconds>(longest_, now - step_since_);
  }
  if (step != step_ || is != RankIs::kStepping) {
    step_since_ = now;
  }
  if (is == RankIs::kBusy) {
    busy_since_ = is_ == RankIs::kBusy ? busy_since_ : now;
    busy_ = now - busy_since_;
  }
  if (step != step_ || (is != is_ && is_ != RankIs::kBusy) || is == RankIs::kBusy ||
      asked_to_stop != asked_) {
    since_ = now;
  }
  step_ = step;
  is_ = is;
  asked_ = asked_to_stop;
  const std::chrono::nanoseconds usual =
      is == RankIs::kWaiting ? std::max(longest_, busy_) : longest_;
  return asked_ && now - since_ > kPatience + 2 * usual;
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
  while (!ends_.wait_for(lock, kLookInterval, [this] { return end_; })) {
    const RankIs is = WhatItIs(heartbeat_.phase());
    if (stop.Look(Clock::now(), heartbeat_.step(), is, StopRequest::Signal().has_value())) {
      const std::string what =
          is == RankIs::kWaiting ? "the validation after step " + std::to_string(heartbeat_.step())
                                 : "step " + std::to_string(heartbeat_.step() + 1);
      Log(LogLevel::kError, "asked to stop, but " + what +
                                " does not end: a peer hangs. Ending without saving; the last "
                                "checkpoint stays");
      FlushLog(std::chrono::seconds(1));
      _exit(kExitRestart);
    }
  }
}

}  // namespace ddprun

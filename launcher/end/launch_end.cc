#include "launcher/end/launch_end.h"

#include <utility>

#include "common/check.h"
#include "common/exit_status.h"
#include "common/log.h"

namespace ddprun {

void LaunchEnd::Begin(int exit_code, Duration reading) {
  CHECK(phase_ == Phase::kWorking);
  phase_ = Phase::kReading;
  exit_code_ = exit_code;
  flush_.Begin(reading, steps_.unread_output, [this] { Report(); });
}

void LaunchEnd::OnSignal(int signal) {
  stopped_ = true;
  switch (phase_) {
    case Phase::kWorking:
    case Phase::kOver:
      break;
    case Phase::kReading:
    case Phase::kLeaving:
      flush_.GiveUp();
      break;
    case Phase::kReporting:
      kept_ = signal;
      break;
    case Phase::kServing:
      Log(LogLevel::kInfo, "got " + SignalName(signal) + ": the rendezvous server stops now");
      BeOver();
      break;
  }
}

void LaunchEnd::OnServerCame() {
  if (phase_ == Phase::kServing) {
    Serve();
  }
}

void LaunchEnd::OnServerWent() {
  if (phase_ == Phase::kServing) {
    Leave();
  }
}

void LaunchEnd::Report() {
  phase_ = Phase::kReporting;
  steps_.report([this] { OnReported(); });
}

void LaunchEnd::OnReported() {
  Serve();
  if (kept_ && phase_ == Phase::kServing) {
    OnSignal(*std::exchange(kept_, std::nullopt));
  }
}

void LaunchEnd::Serve() {
  phase_ = Phase::kServing;
  const bool serves = steps_.serve([this] {
    if (phase_ == Phase::kServing) {
      Leave();
    }
  });
  if (!serves) {
    Leave();
  }
}

void LaunchEnd::Leave() {
  phase_ = Phase::kLeaving;
  flush_.Begin(OutputFlushTimeout(exit_code_, stopped_), steps_.unread, [this] { BeOver(); });
}

void LaunchEnd::BeOver() {
  phase_ = Phase::kOver;
  steps_.over();
}

}  // namespace ddprun

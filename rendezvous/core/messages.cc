#include "rendezvous/core/messages.h"

namespace ddprun {
namespace {

constexpr int kRestartMe = 75;

}  // namespace

bool IsPlanned(StopCause cause) {
  switch (cause) {
    case StopCause::kScaleUp:
    case StopCause::kLeave:
    case StopCause::kOperator:
      return true;
    case StopCause::kFailure:
    case StopCause::kNodeLost:
    case StopCause::kDeclaredLost:
    case StopCause::kHang:
    case StopCause::kSuperseded:
      return false;
  }
  return false;
}

bool IsCollateral(const WorkerFailure& failure) {
  return (failure.stopped_by_us && !failure.recorded) ||
         (failure.said_hello && failure.status == ExitStatus(Exited{kRestartMe}));
}

bool SameDirective(const Directive& a, const Directive& b) {
  const bool both_wait = std::holds_alternative<Wait>(a) && std::holds_alternative<Wait>(b);
  return both_wait || a == b;
}

}  // namespace ddprun

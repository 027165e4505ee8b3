#include "rendezvous/messages/messages.h"

#include "common/exit_code.h"

namespace ddprun {
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
         (failure.said_hello && failure.status == ExitStatus(Exited{kExitRestart}));
}

Directive WithoutWords(const Directive& directive) {
  if (std::holds_alternative<Wait>(directive)) {
    return Wait{};
  }
  if (const auto* const finish = std::get_if<Finish>(&directive)) {
    return Finish{finish->ending, finish->exit_code, {}, {}, finish->gave_up};
  }
  if (const auto* const stop = std::get_if<Stop>(&directive)) {
    return Stop{stop->generation, stop->world_id, stop->cause};  // An older node returns no more.
  }
  return directive;
}

bool SameDirective(const Directive& a, const Directive& b) {
  return a.index() == b.index() && WithoutWords(a) == WithoutWords(b);
}

}  // namespace ddprun

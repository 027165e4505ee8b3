// What an operator may ask of a run: that a node leaves it, or that all of it stops.
//
// Pure. Whether somebody may ask is decided before (rendezvous/listener/control_token.h). Draining
// is a planned leave: the world drains with the shutdown timeout, nothing is charged, the others go
// on without the node, and it finishes with Finish(left). Stopping is the INT of any agent.
#pragma once

#include <string>

#include "rendezvous/core/transitions.h"

namespace ddprun {

// What somebody allowed to (that is checked before) asks of the run.
enum class ControlVerb { kDrain, kStop };
struct Controlled {
  ControlVerb verb = ControlVerb::kStop;
  NodeId node;  // Of kDrain.
};

// What would follow, in words; the error names what is wrong with the wish. Changes nothing.
struct ControlAnswer {
  bool accepted = false;
  std::string text;
};
ControlAnswer AnswerTo(const CoordinatorState& state, const Controlled& controlled);

void OnControlled(CoordinatorStepContext& step, const Controlled& controlled);

}  // namespace ddprun

// An operator's requests to a run: that a node leaves it, or that all of it stops.
//
// Pure. Whether the caller may ask is decided before (rendezvous/listener/control_token.h).
// Draining is a planned leave: the world drains with the shutdown timeout, it uses no restart, the
// others continue without the node, and it finishes with Finish(left). Stopping is the INT of any
// agent.
#pragma once

#include <string>

#include "rendezvous/core/transitions.h"

namespace ddprun {

// The request of an operator who may make it (that is checked before).
enum class ControlVerb { kDrain = 1, kStop };
struct Controlled {
  ControlVerb verb = ControlVerb::kStop;
  NodeId node;  // Of kDrain.
};

// The consequence, in words; the error names what is wrong with the request. Changes nothing.
struct ControlAnswer {
  bool accepted = false;
  std::string text;
};
ControlAnswer AnswerTo(const CoordinatorState& state, const Controlled& controlled);

void OnControlled(CoordinatorStepContext& step, const Controlled& controlled);

}  // namespace ddprun

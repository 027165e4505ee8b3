// Decides when this machine is checked (--host-check, --node-check), and what the verdict means:
// whether a world may have it. The coordinator hears of it in the report; the driver
// runs the check.
//
//   is        | starts   | workers fail | all are gone | it passes | it fails | a pause is over
//   fit       | checking | suspect      | -            | -         | -        | -
//   suspect   | -        | suspect      | checking     | -         | -        | -
//   checking  | -        | -            | -            | fit       | unfit    | -
//   unfit     | -        | -            | -            | -         | -        | looked at
//   looked at | -        | -            | -            | fit       | unfit    | -
//
// One that is fit and idle is checked too when a fact of its machine refuses it.
//
// A node is not suspected because of workers that a planned stop ends, that ask to be started again
// (75) or that we ended; a hang makes it suspect. One that is unfit stays so while it is looked at
// again, after 1, 2, 4 and then every 8 minutes. Never while workers are here, nor of a node that
// leaves. Where a machine lacks what the workers need, the node is unfit from its start and never
// checked.
//
// Internal to agent/core.
#pragma once

#include "agent/core/transitions.h"

namespace ddprun {

// Before the first report, so that no server relies on a machine that was never checked.
void BeginFirstCheck(AgentStepContext& step);

// All workers are gone.
void CheckIfSuspect(AgentStepContext& step);

void OnChecked(AgentStepContext& step, const NodeChecked& checked);

// A spare whose machine breaks must not be taken into a world.
void OnHostLooked(AgentStepContext& step, const HostLooked& looked);

// The pause of one that is unfit is over; or a check lasts, and that is said.
void CheckAgainIfDue(AgentStepContext& step);

// Leaves if this node cannot start its workers and the others have known that for long enough.
void LeaveIfDue(AgentStepContext& step);

// False: it starts no workers, whatever the directive is.
bool MayHost(const AgentState& state);

}  // namespace ddprun

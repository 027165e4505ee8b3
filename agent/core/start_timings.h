// Measures how soon this node carries a directive out: from the directive to its workers' start, to
// their state, to their first step; and from the first bad news of them to the report of it.
//
// Nothing is decided by it. A part that a worker does not report stays unknown: RESUME means that
// its state is there, the first STEP beyond that one that it trains.
//
// Internal to agent/core.
#pragma once

#include "agent/core/transitions.h"

namespace ddprun {

// A directive to run arrived: the times of the last generation are dropped.
void BeginPace(AgentStepContext& step);

void NoteStarted(AgentStepContext& step, const WorkersStarted& started);

// Measures, and lets its health take the word in.
void OnWord(AgentStepContext& step, const WorkerSpoke& spoke);

// A worker dies or has ended, and this agent had not stopped it.
void NoteBadNews(AgentStepContext& step, Time noticed);

// In a large world all nodes get the directive to run at one moment. If each answered at once, the
// directives of the last nodes would wait behind the answers of the first, so each takes a moment
// of its own. News of its workers does not wait for it.
bool HoldsBackItsStart(AgentStepContext& step);

}  // namespace ddprun

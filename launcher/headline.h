// The state of a run in one sentence, and the numbers that people ask for first: the same in
// screens, JSON, metrics and the status page.
//
// Pure. A world's step is the lowest of its nodes: all must take part in the next one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/core/status.h"

namespace ddprun {

struct RunHeadline {
  // "training: step 1200, 800 ms each"; "no step for 4 min 12 s (usual 800 ms): rank 21 on n10
  // stands in data (step 59), the other 31 in all_reduce (step 59)", where a few differ from the
  // many; "no progress for 12.0 s: ranks 0-2 wait in a collective; not in it: rank 3 on
  // n1".
  std::string text;
  bool bad = false;
};
RunHeadline HeadlineOf(const RunStatus& run);

// The time of one step as most ranks report it, in seconds; 0: no rank has reported one.
double UsualStep(const RunStatus& run);

// "": it has sent no word.
const char* WordOf(RankState state);

// "": it has reported none.
std::string PhaseOf(const RankDetails& details, const RankDetail& rank);

// 0: no rank has reported one.
std::uint64_t LowestStep(const RunStatus& run);

// Time that is being lost and that no total has yet: since bad news, until it is trained again; or
// since the last step, less what one takes, where the headline says that the run stands. 0: it
// trains, or is over.
Duration LosingNow(const RunStatus& run);

// Whether a node, an event or a startup of the run shows a step.
bool StepsAreKnown(const RunStatus& run);

// The share of the time since the first known event that was not lost, nor is being lost; nullopt:
// no time or no step is known.
std::optional<double> GoodputOf(const RunStatus& run);

}  // namespace ddprun

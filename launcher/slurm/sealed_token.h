// A token for the nodes of a Slurm job, which share a user and nothing else: drawn by the server,
// sealed by MUNGE for that user, and sent to any caller at the endpoint (/healthz?sealed).
//
// It is the server's, not the run's, so no two nodes can end with different ones. A seal that opens
// is no proof: it may be as old as it likes, and come from any user. A process that
// did not seal it lacks the token, which it would have to prove next.
#pragma once

#include <string>

#include "common/endpoint.h"
#include "common/result.h"
#include "common/time.h"

namespace ddprun {

struct SealedToken {
  std::string token;  // Empty: there is none.
  std::string sealed;
  std::string why_not;  // For people; empty: it is there, or none is needed.
};

// Blocks for 20 s where MUNGE's daemon hangs, else for a moment.
SealedToken DrawSealedToken();

// The token that is sealed at an endpoint; empty: none is, or no server answers within `patience`.
// kUnavailable: to be asked again; kInvalid: asking again does not help. Blocks for 10 s more where
// MUNGE hangs.
Result<std::string> TokenSealedAt(const Endpoint& endpoint, Duration patience);

}  // namespace ddprun

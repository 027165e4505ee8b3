// A token for the nodes of a Slurm job, which share a user and nothing else: drawn by who serves,
// sealed by MUNGE for that user, and told to whoever asks at the endpoint (/healthz?sealed).
//
// It is the server's, not the run's, so no two nodes can end with different ones.
//
// Who opens it looks that his own user sealed it, for his own run. It may be as old as it likes,
// and come from anybody: who cannot open it lacks the token that he would have to prove next.
#pragma once

#include <optional>
#include <string>

#include "common/endpoint.h"
#include "common/ids.h"
#include "common/result.h"
#include "common/time.h"
#include "launcher/command_line/config.h"
#include "rendezvous/door/tls.h"

namespace ddprun {

struct SealedToken {
  std::string token;  // Empty: there is none.
  std::string sealed;
  std::string why_not;  // For people; empty: it is there, or nobody wants one.
};

// In a Slurm job, where no token and no certificate is given. `run`: empty for a server of any.
// Blocks for 12 s where MUNGE's daemon hangs, which it says; else for a moment.
SealedToken DrawSealedToken(const LaunchConfig& config, const Access& access);
SealedToken DrawSealedToken(const ServerConfig& config, const Access& access);

// kRefused: another user's, or for another run. kUnavailable: MUNGE does not answer now.
Result<std::string> OpenSealedToken(const std::string& sealed, const RunId& run);

// What is sealed at an endpoint; empty: nothing is, or nobody answers within `patience`. An empty
// run: of any. kUnavailable: to be asked again; kInvalid: asking again does not help. Blocks for
// 3 s more where MUNGE hangs.
Result<std::string> TokenSealedAt(const Endpoint& endpoint, const RunId& run, Duration patience);

}  // namespace ddprun

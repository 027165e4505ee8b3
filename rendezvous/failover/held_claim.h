// The claim of a server whose agent may die while its host lives: the facts that the agent's guard
// gets about it, and how the guard releases it. A node that finds a released claim becomes the
// leader at once.
//
//   | what happens                         | what the guard knows                                |
//   |--------------------------------------|-----------------------------------------------------|
//   | a term begins                        | nothing                                             |
//   | a world is formed, or recovered      | claim, membership, world; before any node gets it   |
//   | the run's outcome is known           | nothing: the claim says that                        |
//   | the server steps down, the agent     | nothing                                             |
//   |   ends in order                      |                                                     |
//   | the agent dies                       | what it was: the guard ends all processes, then     |
//   |                                      | releases the claim if that is open and its own      |
//   | the guard dies, or the host          | nothing: the claim goes stale                       |
//
// Decides nothing about who serves.
#pragma once

#include <optional>
#include <string>

#include "common/result.h"
#include "rendezvous/core/failover/state.h"
#include "rendezvous/failover/claims.h"

namespace ddprun {

// Empty: nothing is held.
std::string Encode(const std::optional<HeldClaim>& held);
std::optional<HeldClaim> DecodeHeldClaim(const std::string& text);

// As a released claim says it.
std::string Encode(const Died& died);
std::optional<Died> DecodeDied(const std::string& text);

// The guard's part, once nothing of the node is left. False: there was nothing to release, since it
// is closed, or another one's. Blocks, as claims do.
Result<bool> Release(Claims& claims, const HeldClaim& held);

}  // namespace ddprun

// What a server leaves that dies with its agent while its host goes on: which claim it held, and
// the newest record of its run. The agent's guard holds it, and when the agent is dead and nothing
// of its node is left, closes the claim with it: whoever finds that takes the part over at once.
//
//   | what happens                         | what is held                                        |
//   |--------------------------------------|-----------------------------------------------------|
//   | a reign begins                       | nothing yet: its claim, but no record               |
//   | a world is formed, a budget used     | claim, record; before anybody is told of it         |
//   | the agent is another membership      | the same, with that one too                         |
//   | the run's outcome is known           | nothing: the claim says that                        |
//   | the record is larger than a claim    | nothing                                             |
//   |   can hold                           |                                                     |
//   | the server steps down, the agent     | nothing                                             |
//   |   ends in order                      |                                                     |
//   | the agent dies                       | what it was: its guard ends all processes, then     |
//   |                                      | closes the claim if that is open and his own, for   |
//   |                                      | 2 s at most                                         |
//   | it dies while it writes              | what was before: nobody was told of the new one     |
//   | the guard dies, or the host          | nobody looks: the claim goes stale                  |
//
// Decides nothing about who serves. Lives on the loop, and never waits.
#pragma once

#include <functional>
#include <optional>

#include "common/result.h"
#include "rendezvous/core/succession/state.h"
#include "rendezvous/succession/claims.h"

namespace ddprun {

class EstateKeeper {
 public:
  // `hold`: in place of what was held before. It outlives this process.
  using Hold = std::function<void(const std::optional<HeldEstate>&)>;
  explicit EstateKeeper(Hold hold) : hold_(std::move(hold)) {}

  // Of this process's agent, before it is sent.
  void NoteReport(const NodeReport& report);

  void Begin(const Claim& claim);
  void Keep(const RunRecord& record);
  void End();

 private:
  void Write();

  const Hold hold_;
  RunId run_;  // The agent's.
  HeldEstate held_;
  bool serves_ = false;
  bool holds_ = false;
};

// The guard's part, once nothing of the node is left. False: there was nothing to close, since it
// is closed, or another one's. Blocks, as claims do.
Result<bool> CloseForTheDead(Claims& claims, const HeldEstate& held);

}  // namespace ddprun

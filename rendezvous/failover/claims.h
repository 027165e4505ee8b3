// Where the claims to be the server are kept: a shared directory, or what stands for one in a
// simulation. Their meaning is decided in core/failover.
//
// Blocks: every call may wait for a disk. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "common/endpoint.h"
#include "common/result.h"
#include "rendezvous/core/failover/state.h"

namespace ddprun {

class Claims {
 public:
  virtual ~Claims() = default;

  // nullopt: there is none.
  virtual Result<std::optional<Claim>> Newest() = 0;

  // As made: with all that was known of ended runs at that moment, whatever was read before.
  // kRefused: another process has made that number.
  virtual Result<Claim> Make(const Claim& claim) = 0;

  // As `claim` now is. True: there is a newer one.
  virtual Result<bool> Move(const Claim& claim) = 0;

  // Tells people where the server is, and what its operators must show.
  virtual Result<void> Announce(const Endpoint& endpoint, const std::string& token) = 0;

  // "the run directory '/shared/run'", for people.
  virtual std::string Where() const = 0;
};

// Adds to `made` the ended runs that earlier holders have written since its maker read their
// claims: of holders that never moved theirs, which lack the ended runs that they had found
// themselves, and of the last holder that did. `read`: the claim of a number.
template <class Read>
void AddEndedBefore(Claim& made, const Read& read) {
  bool moved = false;
  for (std::uint64_t number = made.number - 1; number > 0 && !moved; --number) {
    const Result<Claim> before = read(number);
    if (!before && before.error().kind != ErrorKind::kInvalid) {
      return;
    }
    if (before) {
      Merge(made.ended, before->ended, std::max(kMostEndedInClaim, made.ended.size()));
      moved = before->counter > 0;
    }
  }
}

}  // namespace ddprun

#include "launcher/server/release_claim.h"

#include <chrono>
#include <thread>

#include "common/log.h"
#include "rendezvous/failover/claim_directory.h"
#include "rendezvous/failover/held_claim.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kTryAgain{20};

}  // namespace

void ReleaseClaim(const std::string& run_dir, const std::string& held) {
  const std::optional<HeldClaim> claim = DecodeHeldClaim(held);
  if (!claim) {
    return;
  }
  StartLog("ddprun " + claim->died.key.node, LogLevel::kInfo);
  ClaimDirectory claims(run_dir);
  Result<bool> closed = Release(claims, *claim);
  while (!closed && closed.error().kind == ErrorKind::kUnavailable) {
    std::this_thread::sleep_for(kTryAgain);
    closed = Release(claims, *claim);
  }
  if (!closed) {
    Log(LogLevel::kWarning,
        "cannot close the claim of this node's server: " + closed.error().message +
            "; another node becomes the leader when the claim expires");
  } else if (*closed) {
    Log(LogLevel::kInfo,
        "this node's server died with its agent: closed its claim, so that "
        "another node becomes the leader");
  }
}

}  // namespace ddprun

#include "launcher/server/heir.h"

#include <chrono>
#include <thread>

#include "common/log.h"
#include "rendezvous/succession/claim_directory.h"
#include "rendezvous/succession/estate_memory.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kTryAgain{20};

}  // namespace

void CloseClaimOfTheDead(const std::string& run_dir, const UniqueFd& estate) {
  const std::optional<HeldEstate> held = EstateMemory::Read(estate.get());
  if (!held) {
    return;  // It carried no server, or has seen to its end itself.
  }
  StartLog("ddprun " + held->estate.node, LogLevel::kInfo);
  ClaimDirectory claims(run_dir);
  Result<bool> closed = CloseForTheDead(claims, *held);
  while (!closed && closed.error().kind == ErrorKind::kUnavailable) {
    std::this_thread::sleep_for(kTryAgain);
    closed = CloseForTheDead(claims, *held);
  }
  if (!closed) {
    Log(LogLevel::kWarning,
        "the claim of this node's server could not be closed: " + closed.error().message +
            "; another node takes its part over once that goes stale");
  } else if (*closed) {
    Log(LogLevel::kInfo,
        "this node's server died with its agent: closed its claim, so that "
        "another node takes its part over");
  }
}

}  // namespace ddprun

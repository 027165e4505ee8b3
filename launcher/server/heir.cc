#include "launcher/server/heir.h"

#include <chrono>
#include <thread>

#include "common/log.h"
#include "launcher/command_line/flags.h"
#include "launcher/run_token.h"
#include "launcher/server/server_role.h"
#include "rendezvous/succession/estate_memory.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kTryAgain{20};

Result<std::shared_ptr<Claims>> ClaimsOf(LaunchConfig& config, const RunId& run) {
  RETURN_IF_ERROR(FindToken(config));
  ASSIGN_OR_RETURN(const Access access, ChooseAccess(config.token_file, config.token, config.tls));
  SuccessionOptions options;
  KeepClaims(config, access, run, options);
  return options.claims;
}

}  // namespace

void CloseClaimOfTheDead(LaunchConfig config, const UniqueFd& estate) {
  const std::optional<HeldEstate> held = EstateMemory::Read(estate.get());
  if (!held) {
    return;  // It carried no server, or has seen to its end itself.
  }
  StartLog("ddprun " + held->estate.node, LogLevel::kInfo);
  const auto claims = ClaimsOf(config, held->estate.record.run_id);
  Result<bool> closed = claims ? Result<bool>(false) : Result<bool>(claims.error());
  // A list may have to be asked for its tokens first.
  for (bool again = claims.has_value(); again;) {
    closed = CloseForTheDead(**claims, *held);
    again = !closed && closed.error().kind == ErrorKind::kUnavailable;
    if (again) {
      std::this_thread::sleep_for(kTryAgain);
    }
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

// The command lines of `ddprun rendezvous` and `ddprun daemon`, and the conditions under which a
// server may be opened at an address. Checks texts only; nothing is opened.
#pragma once

#include <string>
#include <vector>

#include "launcher/commands.h"
#include "proto/worker_env.h"

namespace ddprun {

Result<CommandLine> ParseServer(const std::vector<std::string>& args, const GetEnv& get_env);
Result<CommandLine> ParseDaemon(const std::vector<std::string>& args, const GetEnv& get_env);

// Refused where any peer could join without a token or a certificate.
Result<void> CheckExposure(const std::string& flag, const Endpoint& endpoint,
                           const AccessFlags& flags);

}  // namespace ddprun

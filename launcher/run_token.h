// The token that nodes have in common if the user has not given them one: they can share it because
// they share a directory.
//
//   --run-dir=DIR                    DIR/token
//   the endpoint is on loopback      <user directory>/token: one user's, on one machine
//   --insecure, or certificates      none
//   anything else                    none
//
// Mode 0600; the first node draws it. All of a user's runs on loopback share one token: a process
// that can read one token file of this user can read any other. A forwarded port makes no
// difference.
#pragma once

#include <filesystem>
#include <string>

#include "common/endpoint.h"
#include "common/result.h"
#include "launcher/command_line/config.h"

namespace ddprun {

// The file's name, for --token-file. It is whole from the moment it is there: made beside and
// linked to its name, which only one node can do.
Result<std::string> ShareToken(const std::filesystem::path& file);

// Where nothing was said that excludes it: names the file with the shared token in `token_file`.
// `meet`: where they meet.
Result<void> FindToken(AccessFlags& flags, const Endpoint& meet);

// The token that is shared there already, for verbs; empty: none.
std::string TokenSharedAt(const Endpoint& endpoint);

}  // namespace ddprun

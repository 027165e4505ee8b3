// The file in which a server with a state directory keeps the detached runs of its pool, so that
// the next server knows those that no daemon and no launch tells of: they wait, and their launches
// have gone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/result.h"
#include "rendezvous/messages/pool_messages.h"

namespace ddprun {

// As the file's bytes.
std::string Encode(const std::vector<PoolRequest>& requests);
// kInvalid: these are not a file's bytes, or a request in them is not valid.
Result<std::vector<PoolRequest>> DecodePoolRequests(const std::string& bytes);

// Those of an earlier server; no file: none. Waits for the disk.
Result<std::vector<PoolRequest>> ReadPoolRequests(const std::filesystem::path& file);

}  // namespace ddprun

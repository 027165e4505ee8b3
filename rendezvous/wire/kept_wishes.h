// How a pool's file has its detached runs, as bytes.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "rendezvous/messages/pool_messages.h"

namespace ddprun {

std::string Encode(const std::vector<PoolWish>& wishes);
// kInvalid: these are not a file's bytes, or a wish in them is not valid.
Result<std::vector<PoolWish>> DecodeWishes(const std::string& bytes);

}  // namespace ddprun

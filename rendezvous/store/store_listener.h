// The socket at which a generation's store will be found: bound, with connections waiting in its
// backlog, before there is a store.
#pragma once

#include <cstdint>
#include <string>

#include "common/files.h"
#include "common/result.h"

namespace ddprun {

struct StoreListener {
  UniqueFd fd;  // Close-on-exec, not blocking.
  std::uint16_t port = 0;
};

// `host`: an address, or empty for every one of this machine (IPv4 and IPv6). Port 0: any free one.
Result<StoreListener> ListenForStore(const std::string& host, std::uint16_t port);

}  // namespace ddprun

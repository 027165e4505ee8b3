// Which address a name stands for, and from which of its own this machine reaches it.
//
// Looks names up, which may take long, and asks the kernel for routes; opens no port and sends
// nothing.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"

namespace ddprun {

// The numeric addresses of a name, without doubles. kUnavailable: it cannot be looked up.
Result<std::vector<std::string>> Resolve(const std::string& host);

// The source address of a packet to the host.
Result<std::string> RouteTo(const std::string& host);

}  // namespace ddprun

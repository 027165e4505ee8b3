// The number of bytes that a TCP connection has received since it began, whether or not they were
// read.
//
// A file of its own: the kernel's header with this number and the C library's exclude each other.
#pragma once

#include <cstdint>

namespace ddprun {

// 0 where the kernel does not say.
std::uint64_t BytesReceived(int fd);

}  // namespace ddprun

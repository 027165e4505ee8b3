// Memory that a worker leaves with its agent, and that the next worker of its local rank finds: the
// numbers of systemd's file descriptor store, sd_notify(3) and sd_listen_fds(3).
//
// Left by a datagram to the notify socket (notify.h) with one memfd beside it. Found by LISTEN_FDS
// (how many), LISTEN_FDNAMES (their names, with ':' between) and LISTEN_PID (for whom), as
// descriptors from kFirstBlock up.
#pragma once

#include <cstddef>

namespace ddprun {

inline constexpr int kFirstBlock = 3;
inline constexpr int kMostBlocks = 16;  // Of one worker.
inline constexpr std::size_t kMaxBlockName = 255;
inline constexpr std::size_t kPidRoom = 12;  // For LISTEN_PID's number and its end.

// Code that takes a descriptor for another purpose takes it from here up, or a block would replace
// it.
inline constexpr int kAboveBlocks = kFirstBlock + kMostBlocks;

}  // namespace ddprun

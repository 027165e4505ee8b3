// Descriptors of a process that has just been forked, closed or marked, on old kernels too.
//
// close_range() came with Linux 5.9, its CLOEXEC flag with 5.11, and sandboxes refuse both (ENOSYS,
// EPERM, EINVAL): then /proc/self/fd is read. Async-signal-safe: between fork or vfork and exec
// nothing else is allowed, so no memory is allocated.
#pragma once

namespace ddprun {

enum class Descriptors { kClosed, kClosedOnExec };

// Those from `first` on. False, with errno: it cannot be done.
bool ChangeDescriptors(int first, Descriptors to);

}  // namespace ddprun

// The life lock: the kernel itself tells the agent that a worker dies.
//
// The agent makes a memfd with a lock for each of its workers, and names the worker's own by
// DDPRUN_LIFE_LOCK=NUMBER:FILE. The worker takes it once, in its first thread, and never lets go:
// a robust mutex, which the kernel marks (FUTEX_OWNER_DIED) when that thread ends. It does so
// before it takes the memory back, which lasts 0.1 s for each GB. The process can be waited for,
// and its pidfd tells, only after that.
//
//   word of the lock (the first one of the mutex)
//   0                      nothing has taken it yet
//   the worker's number    its first thread lives; with FUTEX_WAITERS the kernel wakes the agent
//   FUTEX_OWNER_DIED       that thread has ended, or has executed another program
//
// The agent trusts no byte of it (agent/watch/life_locks.h). Any program may take its lock. Without
// it, a death is known a little later. C's runtime alone, as preload_process.h.
#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun {

inline constexpr const char* kLifeLockVariable = "DDPRUN_LIFE_LOCK";
inline constexpr const char* kLifeLocksName = "ddprun-life";
inline constexpr unsigned long kLifeLocks = 127;  // One FUTEX_WAITV waits for them and one more.

struct alignas(64) LifeLock {
  pthread_mutex_t mutex;
  uint32_t& word() { return reinterpret_cast<uint32_t&>(mutex); }  // glibc's `__lock`.
};
static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0 && sizeof(LifeLock) == 64);

struct LifeLocks {
  LifeLock locks[kLifeLocks + 1];
};

// In another PID namespace the name may lead to any file: it is not even opened.
inline bool IsLifeLocks(const char* file) {
  char target[64] = {};
  const char* const name = ::readlink(file, target, sizeof target - 1) > 0 ? target : "";
  return ::strncmp(name, "/memfd:", 7) == 0 &&
         ::strncmp(name + 7, kLifeLocksName, ::strlen(kLifeLocksName)) == 0;
}

// In the first thread of a worker. Does nothing where the lock is taken, or there is none.
inline void TakeLifeLock() {
  const char* const text = ::getenv(kLifeLockVariable);
  char* file = nullptr;
  const unsigned long number = text != nullptr ? ::strtoul(text, &file, 10) : kLifeLocks;
  if (number >= kLifeLocks || *file != ':' || !IsLifeLocks(file + 1)) {
    return;
  }
  const int fd = ::open(file + 1, O_RDWR | O_CLOEXEC);
  struct stat info {};
  if (fd < 0 || ::fstat(fd, &info) != 0 || info.st_size != sizeof(LifeLocks)) {
    ::close(fd);
    return;
  }
  void* const mapped =
      ::mmap(nullptr, sizeof(LifeLocks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (mapped == MAP_FAILED) {
    return;
  }
  LifeLock& lock = static_cast<LifeLocks*>(mapped)->locks[number];
  if (__atomic_load_n(&lock.word(), __ATOMIC_ACQUIRE) != 0) {
    ::munmap(mapped, sizeof(LifeLocks));  // This is a child of the worker.
    return;
  }
  pthread_mutexattr_t robust;
  ::pthread_mutexattr_init(&robust);
  ::pthread_mutexattr_setpshared(&robust, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&lock.mutex, &robust);
  ::pthread_mutex_lock(&lock.mutex);
  __atomic_or_fetch(&lock.word(), FUTEX_WAITERS, __ATOMIC_ACQ_REL);
  ::syscall(SYS_futex, &lock.word(), FUTEX_WAKE, 1, nullptr, nullptr, 0);  // The agent waits on 0.
}

}  // namespace ddprun

// Facts that a preload process reads about itself before it can be forked: its threads and open
// GPUs. C's runtime alone, as preload_process.h.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace ddprun {

// Entries of a /proc directory that `counts` counts.
template <class Counts>
int CountIn(const char* directory, Counts counts) {
  int count = 0;
  DIR* const dir = ::opendir(directory);
  while (const dirent* const entry = dir != nullptr ? ::readdir(dir) : nullptr) {
    if (entry->d_name[0] != '.' && counts(dir, entry->d_name)) {
      ++count;
    }
  }
  if (dir != nullptr) {
    ::closedir(dir);
  }
  return count;
}

inline bool IsGpu(DIR* dir, const char* name) {
  char target[64] = {};
  const ssize_t size = ::readlinkat(::dirfd(dir), name, target, sizeof target - 1);
  return size > 0 && (::strncmp(target, "/dev/nvidia", 11) == 0 ||
                      ::strncmp(target, "/dev/dri", 8) == 0 || ::strcmp(target, "/dev/kfd") == 0);
}

// The name of a thread other than the first is added to `names`, where it has room.
inline void AddThreadName(DIR* dir, const char* thread, char* names, size_t room) {
  char path[32] = {};
  ::snprintf(path, sizeof path, "%.20s/comm", thread);
  const int file = ::atoi(thread) == ::getpid() ? -1 : ::openat(::dirfd(dir), path, O_RDONLY);
  char name[32] = {};
  if (file >= 0 && ::read(file, name, sizeof name - 1) > 0) {
    const size_t used = ::strlen(names);
    ::snprintf(names + used, room - used, "%s%.*s", used > 0 ? ", " : "",
               static_cast<int>(::strcspn(name, "\n")), name);
  }
  if (file >= 0) {
    ::close(file);
  }
}

}  // namespace ddprun

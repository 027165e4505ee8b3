// What `ps e` and /proc/PID/environ show of a process that has changed its environment. C's runtime
// alone, for template_process.cc.
#pragma once

#include <fcntl.h>
#include <linux/prctl.h>
#include <linux/types.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace ddprun {

inline unsigned long FieldOf(const char* stat, int field) {
  for (int at = 3; stat != nullptr && at < field; ++at) {
    stat = ::strchr(stat, ' ');
    stat = stat == nullptr ? nullptr : stat + 1;
  }
  return stat == nullptr ? 0 : ::strtoul(stat, nullptr, 10);
}

// What `ps e` and /proc/PID/environ show. A kernel without it shows the template's.
inline void ShowEnvironment(const char* begin, const char* end) {
  char text[4096];
  const int fd = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  const ssize_t size = fd < 0 ? -1 : ::read(fd, text, sizeof text - 1);
  if (fd >= 0) {
    ::close(fd);
  }
  text[size > 0 ? size : 0] = '\0';
  const char* const stat = size > 0 ? ::strrchr(text, ')') : nullptr;
  if (stat == nullptr || stat[1] == '\0') {
    return;
  }
  prctl_mm_map map{};
  map.start_code = FieldOf(stat + 2, 26);
  map.end_code = FieldOf(stat + 2, 27);
  map.start_stack = FieldOf(stat + 2, 28);
  map.start_data = FieldOf(stat + 2, 45);
  map.end_data = FieldOf(stat + 2, 46);
  map.start_brk = FieldOf(stat + 2, 47);
  map.brk = reinterpret_cast<unsigned long>(::sbrk(0));
  map.arg_start = FieldOf(stat + 2, 48);
  map.arg_end = FieldOf(stat + 2, 49);
  map.env_start = reinterpret_cast<unsigned long>(begin);
  map.env_end = reinterpret_cast<unsigned long>(end);
  map.exe_fd = static_cast<__u32>(-1);
  ::prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
}

}  // namespace ddprun

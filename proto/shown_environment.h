// The texts that `ps e`, /proc/PID/cmdline and /proc/PID/environ show of a process that has changed
// its arguments or its environment. C's runtime alone, for preload_process.cc.
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

// Texts that end in a byte 0 each, one after the other in anonymous memory.
struct ShownTexts {
  unsigned long begin = 0;  // 0: as they are now.
  unsigned long end = 0;    // The same.
};

// Returns the arguments that were shown before. A kernel without it changes nothing.
inline ShownTexts Show(ShownTexts arguments, ShownTexts environment) {
  char text[4096];
  const int fd = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  const ssize_t size = fd < 0 ? -1 : ::read(fd, text, sizeof text - 1);
  if (fd >= 0) {
    ::close(fd);
  }
  text[size > 0 ? size : 0] = '\0';
  const char* const stat = size > 0 ? ::strrchr(text, ')') : nullptr;
  if (stat == nullptr || stat[1] == '\0') {
    return {};
  }
  prctl_mm_map map{};
  map.start_code = FieldOf(stat + 2, 26);
  map.end_code = FieldOf(stat + 2, 27);
  map.start_stack = FieldOf(stat + 2, 28);
  map.start_data = FieldOf(stat + 2, 45);
  map.end_data = FieldOf(stat + 2, 46);
  map.start_brk = FieldOf(stat + 2, 47);
  map.brk = reinterpret_cast<unsigned long>(::sbrk(0));
  const ShownTexts before = {FieldOf(stat + 2, 48), FieldOf(stat + 2, 49)};
  arguments = arguments.begin != 0 ? arguments : before;
  if (environment.begin == 0) {
    environment.begin = FieldOf(stat + 2, 50);
  }
  if (environment.end == 0) {
    environment.end = FieldOf(stat + 2, 51);
  }
  map.arg_start = arguments.begin;
  map.arg_end = arguments.end;
  map.env_start = environment.begin;
  map.env_end = environment.end;
  map.exe_fd = static_cast<__u32>(-1);
  ::prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
  return before;
}

inline ShownTexts TextsIn(const char* begin, const char* end) {
  return {reinterpret_cast<unsigned long>(begin), reinterpret_cast<unsigned long>(end)};
}

}  // namespace ddprun

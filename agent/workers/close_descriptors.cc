#include "agent/workers/close_descriptors.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace ddprun {
namespace {

// As the kernel writes it (getdents64(2)).
struct DirectoryEntry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t size;
  std::uint8_t type;
  char name[1];
};

void Change(int descriptor, Descriptors to) {
  if (to == Descriptors::kClosed) {
    ::close(descriptor);
  } else {
    (void)::fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // It may have been closed meanwhile.
  }
}

int NumberOf(const char* name) {
  int number = 0;
  for (; *name >= '0' && *name <= '9'; ++name) {
    number = 10 * number + (*name - '0');
  }
  return *name == '\0' ? number : -1;  // "." and ".." are none.
}

bool ChangeListed(int first, Descriptors to) {
  const int folder = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    return false;
  }
  alignas(DirectoryEntry) char entries[4096];
  long read = 0;
  while ((read = ::syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; at < read;) {
      const auto* const entry = reinterpret_cast<const DirectoryEntry*>(entries + at);
      const int number = NumberOf(entry->name);
      if (number >= first && number != folder) {
        Change(number, to);
      }
      at += entry->size;
    }
  }
  ::close(folder);
  return read == 0;
}

}  // namespace

bool ChangeDescriptors(int first, Descriptors to) {
  const unsigned flags = to == Descriptors::kClosed ? 0 : CLOSE_RANGE_CLOEXEC;
  return ::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, flags) == 0 ||
         ChangeListed(first, to);
}

}  // namespace ddprun

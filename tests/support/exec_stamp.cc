// exec_stamp FILE: appends "RANK PID NANOSECONDS" of the monotonic clock as its first action, then
// waits for a signal. Tells a benchmark when a worker was executed, to a fraction of a millisecond.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  if (argc != 2) {
    return 2;
  }
  const int fd = ::open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const char* const rank = std::getenv("RANK");
  char line[96];
  const int size = std::snprintf(line, sizeof line, "%s %d %lld\n", rank == nullptr ? "?" : rank,
                                 static_cast<int>(::getpid()),
                                 static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec);
  if (fd < 0 || ::write(fd, line, static_cast<std::size_t>(size)) != size) {
    return 1;
  }
  while (true) {
    ::pause();
  }
}

#include "agent/workers/worker_terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace ddprun {

Result<Pipe> OpenTerminal(int like) {
  UniqueFd agents(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!agents || ::unlockpt(agents.get()) != 0) {
    return SystemError("open", "a terminal for a worker", errno);
  }
  // Not by its name, which may be another one's in a container.
  UniqueFd workers(::ioctl(agents.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios modes{};
  if (!workers || ::tcgetattr(workers.get(), &modes) != 0) {
    return SystemError("open", "the worker's end of a terminal", errno);
  }
  ::cfmakeraw(&modes);
  if (::tcsetattr(workers.get(), TCSANOW, &modes) != 0) {
    return SystemError("set the modes of", "a worker's terminal", errno);
  }
  CopyWindow(like, agents.get());
  return Pipe{std::move(agents), std::move(workers)};
}

void CopyWindow(int from, int to) {
  winsize window{};
  if (::ioctl(from, TIOCGWINSZ, &window) == 0) {
    (void)::ioctl(to, TIOCSWINSZ, &window);
  }
}

bool IsSameTerminal(int one, int other) {
  unsigned first = 0;
  unsigned second = 0;
  return ::ioctl(one, TIOCGDEV, &first) == 0 && ::ioctl(other, TIOCGDEV, &second) == 0 &&
         first == second;
}

bool CanBeDrawnOver(int fd) {
  const char* const term = ::getenv("TERM");
  return ::isatty(fd) == 1 && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

}  // namespace ddprun

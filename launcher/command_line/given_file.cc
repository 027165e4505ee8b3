#include "launcher/command_line/given_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "common/files.h"
#include "common/log.h"

namespace ddprun {
namespace {

// Whether its end is only known once a process has written to it: a FIFO with a name waits for its
// first writer; that of a shell's <(...) has one from the beginning.
bool AwaitsWriter(int fd) {
  struct stat info {};
  struct statfs system {};
  return ::fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode) && ::fstatfs(fd, &system) == 0 &&
         system.f_type != PIPEFS_MAGIC;
}

Result<std::string> ReadFromWriter(int fd, const std::filesystem::path& path, std::size_t max_bytes,
                                   const GivenPatience& patience) {
  const bool awaits_writer = AwaitsWriter(fd);
  const auto begun = std::chrono::steady_clock::now();
  std::string text;
  bool told = false;
  bool ended = false;  // Every writer has gone.
  while (true) {
    char piece[4096];
    const ssize_t got = ::read(fd, piece, sizeof piece);
    if (got > 0) {
      text.append(piece, static_cast<std::size_t>(got));
      if (text.size() > max_bytes) {
        return Invalid("more than " + std::to_string(max_bytes) + " bytes in", path.native());
      }
    } else if (got < 0 && errno != EAGAIN && errno != EINTR) {
      return SystemError("read", path.native(), errno);
    } else if (got == 0 && (ended || !awaits_writer || !text.empty())) {
      return text;
    } else {
      const auto waited = std::chrono::floor<Duration>(std::chrono::steady_clock::now() - begun);
      if (waited >= patience.limit) {
        return Error{ErrorKind::kInvalid,
                     "cannot read '" + path.native() + "': it is not a file, and its writer " +
                         (text.empty() ? "has written nothing" : "has not closed it") + " within " +
                         FormatDuration(patience.limit) + " (name a file)"};
      }
      if (!told && waited >= patience.named) {
        told = true;
        patience.say("waiting for the writer of '" + path.native() + "', which is not a file, " +
                     FormatDuration(patience.limit) + " at most");
      }
      const Duration until = told ? patience.limit : std::min(patience.named, patience.limit);
      pollfd readable{fd, POLLIN, 0};
      ::poll(&readable, 1, static_cast<int>((until - waited).count()));
      ended = (readable.revents & POLLHUP) != 0;
    }
  }
}

}  // namespace

void SayWait(const std::string& text) {
  Announce(LogLevel::kWarning, PrintableLine(text));
}

Result<std::string> ReadGiven(const std::filesystem::path& path, std::size_t max_bytes,
                              const GivenPatience& patience) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) {
    return ReadFile(path, max_bytes);  // Which says what is wrong with it.
  }
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd) {
    return SystemError("read", path.native(), errno);
  }
  return ReadFromWriter(fd.get(), path, max_bytes, patience);
}

}  // namespace ddprun

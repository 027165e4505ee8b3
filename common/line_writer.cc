#include "common/line_writer.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "common/loop.h"

namespace ddprun {
namespace {

bool IsPipe(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
}

// The bytes of one write(2); a line that is longer than PIPE_BUF goes alone.
std::string_view NextPiece(std::string_view bytes, bool pipe) {
  if (!pipe || bytes.size() <= PIPE_BUF) {
    return bytes;
  }
  std::size_t end = bytes.rfind('\n', PIPE_BUF - 1);
  if (end == std::string_view::npos) {
    end = bytes.find('\n');
  }
  return bytes.substr(0, end == std::string_view::npos ? end : end + 1);
}

std::string_view CutToWidth(int fd, std::string_view text) {
  winsize size{};
  const bool known = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return text.substr(0, known ? size.ws_col - 1u : 79u);
}

}  // namespace

int WriteLines(int fd, std::string_view lines) {
  sigset_t broken_pipe;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);  // EPIPE is enough.
  const bool pipe = IsPipe(fd);
  while (!lines.empty()) {
    std::string_view piece = NextPiece(lines, pipe);
    lines.remove_prefix(piece.size());
    while (!piece.empty()) {
      const ssize_t put = ::write(fd, piece.data(), piece.size());
      if (put >= 0) {
        piece.remove_prefix(static_cast<std::size_t>(put));
      } else if (errno ==
                 EAGAIN) {  // The process that gave us the descriptor made it non-blocking.
        pollfd writable{fd, POLLOUT, 0};
        ::poll(&writable, 1, -1);
      } else if (errno != EINTR) {
        return errno;
      }
    }
  }
  return 0;
}

int WriteWithin(int fd, std::string& lines, Duration limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  const bool pipe = IsPipe(fd);
  std::string_view left = lines;
  int error = 0;
  while (!left.empty() && error == 0) {
    const auto wait = std::chrono::ceil<Duration>(end - std::chrono::steady_clock::now());
    pollfd writable{fd, POLLOUT, 0};
    const int ready = ::poll(&writable, 1, static_cast<int>(std::max(wait, Duration{0}).count()));
    if (ready == 0) {
      break;
    }
    if (ready > 0) {
      // A pipe with room takes PIPE_BUF bytes at once.
      const std::string_view piece = NextPiece(left, pipe).substr(0, pipe ? PIPE_BUF : left.size());
      error = WriteLines(fd, piece);
      left.remove_prefix(piece.size());
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  lines.erase(0, error == 0 ? lines.size() - left.size() : lines.size());
  return error;
}

struct LineWriter::Shared {
  Shared(int fd_in, std::size_t room_in) : fd(fd_in), room(room_in) {}

  bool Done() const { return waiting.empty() && dropped == 0 && live == shown && !writing; }

  void Run();
  // With the lock.
  static void Wake(const std::shared_ptr<Shared>& self, Duration limit = Duration{0});
  std::string Next();  // The bytes to write now.

  const int fd;
  const std::size_t room;
  std::mutex mutex;
  std::condition_variable changed;
  std::function<std::string(const std::string&)> line_of = [](const std::string& text) {
    return text + "\n";
  };
  std::string waiting;
  std::size_t dropped = 0;  // Lines, after those that wait.
  std::string live;
  std::string shown;  // Of `live`, on the terminal.
  bool erases_below = false;
  bool writing = false;
  bool started = false;
  bool closed = false;
};

void LineWriter::Shared::Wake(const std::shared_ptr<Shared>& self, Duration limit) {
  self->started = self->started || StartThread([self] { self->Run(); });
  if (self->started) {
    self->changed.notify_all();
  } else if (!self->Done()) {
    self->waiting = self->Next();  // At the limit of processes the caller writes what it can.
    WriteWithin(self->fd, self->waiting, limit);
  }
}

void LineWriter::Shared::Run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return closed || !Done(); });
    if (Done()) {
      return;
    }
    const std::string next = Next();
    writing = true;
    lock.unlock();
    WriteLines(fd, next);
    lock.lock();
    writing = false;
    changed.notify_all();
  }
}

std::string LineWriter::Shared::Next() {
  std::string next = !shown.empty() ? "\r\x1b[K" : erases_below ? "\x1b[J" : "";
  next += std::exchange(waiting, {});
  if (const std::size_t lines = std::exchange(dropped, 0); lines > 0) {
    next += line_of(std::to_string(lines) + (lines == 1 ? " line was" : " lines were") +
                    " dropped here: ddprun's output was not read");
  }
  shown = live;
  next += CutToWidth(fd, shown);
  next += erases_below && !shown.empty() ? "\r" : "";  // The other writer erases it from there.
  return next;
}

LineWriter::LineWriter(int fd, std::size_t room) : shared_(std::make_shared<Shared>(fd, room)) {}

LineWriter::~LineWriter() {
  const std::lock_guard lock(shared_->mutex);
  shared_->closed = true;
  shared_->changed.notify_all();
}

void LineWriter::SetWording(std::function<std::string(const std::string&)> line_of) {
  const std::lock_guard lock(shared_->mutex);
  shared_->line_of = std::move(line_of);
}

void LineWriter::Put(std::string_view lines) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->dropped > 0 || shared_->waiting.size() + lines.size() > shared_->room) {
    shared_->dropped += static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n'));
  } else {
    shared_->waiting += lines;
  }
  Shared::Wake(shared_);
}

void LineWriter::SetLive(std::string_view text) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->live != text) {
    shared_->live = text;
    Shared::Wake(shared_);
  }
}

void LineWriter::EraseBelow() {
  const std::lock_guard lock(shared_->mutex);
  shared_->erases_below = true;
}

bool LineWriter::Flush(Duration limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::unique_lock lock(shared_->mutex, std::try_to_lock);
  while (!lock && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();  // Held for moments, or for ever by a thread that is being ended.
    (void)lock.try_lock();
  }
  if (!lock) {
    return false;
  }
  if (!shared_->Done()) {
    Shared::Wake(shared_, limit);
  }
  return shared_->changed.wait_until(lock, end, [this] { return shared_->Done(); });
}

}  // namespace ddprun

#include "agent/watch/timer_watchdog.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <vector>

#include "common/files.h"
#include "common/log.h"
#include "common/wall_clock.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxTimers = 4096;
constexpr Duration kLongestTimer{3'600'000};  // The wall clock may be set meanwhile.

}  // namespace

TimerWatchdog::TimerWatchdog(AsioLoop& loop, std::function<void(const TimerRequest&)> expire)
    : loop_(loop), expire_(std::move(expire)), pipe_(loop.io()), timer_(loop) {}

TimerWatchdog::~TimerWatchdog() {
  if (!path_.empty()) {
    ::unlink(path_.c_str());
  }
}

Result<void> TimerWatchdog::Listen(const std::filesystem::path& path) {
  struct stat old {};
  if (::lstat(path.c_str(), &old) == 0 && S_ISFIFO(old.st_mode)) {
    ::unlink(path.c_str());
  }
  if (::mkfifo(path.c_str(), 0600) != 0) {
    return SystemError("make the timer FIFO", path.native(), errno);
  }
  path_ = path;
  // For writing too, so that it never ends when the last worker closes it.
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  struct stat made {};
  if (!fd || ::fstat(fd.get(), &made) != 0) {
    return SystemError("open the timer FIFO", path.native(), errno);
  }
  if (!S_ISFIFO(made.st_mode)) {
    return Invalid("another file has replaced the timer FIFO", path.native());
  }
  pipe_.assign(fd.Release());
  Wait();
  return {};
}

void TimerWatchdog::Forget() {
  timers_.clear();
  timer_.Cancel();
}

void TimerWatchdog::Wait() {
  pipe_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                   life_.Guard([this](boost::system::error_code error) {
                     if (!error) {
                       ReadOnePiece();
                       Wait();
                     }
                   }));
}

void TimerWatchdog::ReadOnePiece() {
  char bytes[16 * PIPE_BUF];
  const ssize_t got = ::read(pipe_.native_handle(), bytes, sizeof bytes);
  text_.append(bytes, got > 0 ? static_cast<std::size_t>(got) : 0);
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text_.find('\n', begin)) != text_.npos; begin = end + 1) {
    Take(std::string_view(text_).substr(begin, end - begin));
  }
  text_.erase(0, begin);
  if (text_.size() > 2 * PIPE_BUF) {
    Complain("a line without an end");
    text_.clear();
  }
  LookAtTimers();
}

void TimerWatchdog::Take(std::string_view line) {
  const std::optional<TimerRequest> request = ParseTimerRequest(line);
  if (!request) {
    Complain(std::string(line.substr(0, 200)));
    return;
  }
  const std::pair key(request->pid, request->scope);
  if (request->expires < 0) {
    timers_.erase(key);
  } else if (timers_.size() < kMaxTimers || timers_.contains(key)) {
    timers_[key] = *request;
  } else {
    Complain("more than " + std::to_string(kMaxTimers) + " timers at once");
  }
}

void TimerWatchdog::Complain(const std::string& what) {
  if (!std::exchange(complained_, true)) {
    Log(LogLevel::kWarning, "ignoring on the timer FIFO " + path_.native() + ": " + what);
  }
}

void TimerWatchdog::LookAtTimers() {
  const double now = UnixSeconds();
  std::vector<TimerRequest> over;
  std::optional<double> next;
  for (auto timer = timers_.begin(); timer != timers_.end();) {
    if (timer->second.expires <= now) {
      over.push_back(timer->second);
      timer = timers_.erase(timer);
    } else {
      next = std::min(next.value_or(timer->second.expires), timer->second.expires);
      ++timer;
    }
  }
  if (next) {
    const double seconds =
        std::min(*next - now, std::chrono::duration<double>(kLongestTimer).count());
    timer_.ArmAt(loop_.Now() + Duration(static_cast<Duration::rep>(seconds * 1000) + 1),
                 [this] { LookAtTimers(); });
  } else {
    timer_.Cancel();
  }
  for (const TimerRequest& request : over) {
    expire_(request);
  }
}

}  // namespace ddprun

#include "agent/watch/timer_watchdog.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/log.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxTimers = 4096;
constexpr Duration kLongestTimer{3'600'000};  // The wall clock may be set meanwhile.

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

class TimerWatchdog::State : public std::enable_shared_from_this<State> {
 public:
  State(AsioLoop& loop, std::function<void(const TimerRequest&)> expire)
      : loop_(loop), expire_(std::move(expire)), pipe_(loop.io()), timer_(loop) {}

  Result<void> Listen(const std::filesystem::path& path) {
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
      return Invalid("something else took the timer FIFO's place", path.native());
    }
    pipe_.assign(fd.Release());
    Wait();
    return {};
  }

  void Close() {
    closed_ = true;
    timer_.Cancel();
    boost::system::error_code ignored;
    pipe_.close(ignored);
    if (!path_.empty()) {
      ::unlink(path_.c_str());
    }
  }

  void Forget() {
    timers_.clear();
    timer_.Cancel();
  }

 private:
  void Wait() {
    pipe_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                     [weak = weak_from_this()](boost::system::error_code error) {
                       const auto self = weak.lock();
                       if (!error && self && !self->closed_) {
                         self->ReadOnePiece();
                         self->Wait();
                       }
                     });
  }

  void ReadOnePiece() {
    char bytes[16 * PIPE_BUF];
    const ssize_t got = ::read(pipe_.native_handle(), bytes, sizeof bytes);
    text_.append(bytes, got > 0 ? static_cast<std::size_t>(got) : 0);
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = text_.find('\n', begin)) != text_.npos; begin = end + 1) {
      Take(std::string_view(text_).substr(begin, end - begin));
    }
    text_.erase(0, begin);
    if (text_.size() > 2 * PIPE_BUF) {
      Complain("a line that does not end");
      text_.clear();
    }
    LookAtTimers();
  }

  void Take(std::string_view line) {
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

  void Complain(const std::string& what) {
    if (!std::exchange(complained_, true)) {
      Log(LogLevel::kWarning, "ignored on the timer FIFO " + path_.native() + ": " + what);
    }
  }

  void LookAtTimers() {
    const double now = WallSeconds();
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

  AsioLoop& loop_;
  std::function<void(const TimerRequest&)> expire_;
  boost::asio::posix::stream_descriptor pipe_;
  LoopTimer timer_;
  std::filesystem::path path_;
  std::string text_;
  std::map<std::pair<std::int64_t, std::string>, TimerRequest> timers_;
  bool complained_ = false;
  bool closed_ = false;
};

TimerWatchdog::TimerWatchdog(AsioLoop& loop, std::function<void(const TimerRequest&)> expire)
    : state_(std::make_shared<State>(loop, std::move(expire))) {}

TimerWatchdog::~TimerWatchdog() {
  state_->Close();
}

Result<void> TimerWatchdog::Listen(const std::filesystem::path& path) {
  return state_->Listen(path);
}

void TimerWatchdog::Forget() {
  state_->Forget();
}

}  // namespace ddprun

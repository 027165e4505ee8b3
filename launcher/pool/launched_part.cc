#include "launcher/pool/launched_part.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cerrno>
#include <utility>

#include "agent/workers/wait_status.h"
#include "common/exit_code.h"
#include "common/exit_status.h"
#include "common/text.h"

namespace ddprun {
namespace {

constexpr Duration kLookAgain{20};  // At a child that has ended, or at processes of others.
constexpr Duration kSpawnLimit{10'000};
constexpr Duration kPartStopGrace{500};  // Between SIGTERM and SIGKILL to the guard.
constexpr std::size_t kMostOfFile = 4'096;

// True: this process has it now.
Result<bool> LockFile(int fd, const std::filesystem::path& file) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
    return true;
  }
  return errno == EWOULDBLOCK ? Result<bool>(false) : SystemError("lock", file.native(), errno);
}

std::optional<LaunchedPart::Found> ParseFound(const std::string& text) {
  const std::vector<std::string> words = Split(text, ' ');
  if (words.size() != 5) {
    return std::nullopt;
  }
  const auto part = ParseNumber<std::uint64_t>(words[1]);
  const auto guard = ParseNumber<pid_t>(words[4]);
  if (!part || !guard || *guard < 0) {
    return std::nullopt;
  }
  return LaunchedPart::Found{{words[0], *part, words[2] == "1", words[3]}, false, *guard};
}

Result<void> WritePart(int fd, const std::filesystem::path& file, const PartName& name,
                       pid_t guard) {
  const std::string text = name.run_id + " " + std::to_string(name.part) + " " +
                           (name.detached ? "1 " : "0 ") + name.pool + " " + std::to_string(guard);
  if (::lseek(fd, 0, SEEK_SET) != 0) {
    return SystemError("write", file.native(), errno);
  }
  RETURN_IF_ERROR(WriteAll(fd, text, file));  // On a full disk the old text stays.
  return ::ftruncate(fd, static_cast<off_t>(text.size())) == 0
             ? Result<void>()
             : SystemError("write", file.native(), errno);
}

// Its standard output and error are `out`; its processes keep `lock`.
Result<LaunchedWorker> StartLaunch(WorkerSpec launch, int out, int lock,
                                   LaunchUnderWay& under_way) {
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  launch.outlives = true;
  launch.kept = {lock};
  auto launched = LaunchWorker(launch, {nothing.get(), out, out}, &under_way);
  std::error_code unknown;
  if (!launched && !std::filesystem::is_directory(launch.directory, unknown)) {
    return Error{ErrorKind::kNotFound, "the working directory of the launch, '" +
                                           launch.directory.native() +
                                           "', does not exist on this machine"};
  }
  return launched;
}

}  // namespace

// A lock of the other kind, which goes with this descriptor alone.
Result<UniqueFd> LaunchedPart::Own(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenOrdinary(file, O_RDWR | O_CREAT, 0600));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd.get(), F_OFD_SETLK, &whole) == 0) {
    return fd;
  }
  return errno == EAGAIN || errno == EACCES
             ? Error{ErrorKind::kRefused,
                     "a daemon of this name already runs on this machine and holds '" +
                         file.native() + "'. Choose another --name, or stop that daemon"}
             : SystemError("lock", file.native(), errno);
}

Result<std::optional<LaunchedPart::Found>> LaunchedPart::Look(const std::filesystem::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    return errno == ENOENT ? Result<std::optional<Found>>(std::nullopt)
                           : SystemError("open", file.native(), errno);
  }
  ASSIGN_OR_RETURN(const bool is_free, LockFile(fd.get(), file));
  ASSIGN_OR_RETURN(const std::string text, ReadToEnd(fd.get(), file, kMostOfFile));
  std::optional<Found> found = ParseFound(text);
  if (!found && !is_free) {
    return Error{ErrorKind::kRefused,
                 "a run is still running here, but '" + file.native() +
                     "' does not name it. Stop it first (its processes have that file open)"};
  }
  if (found) {
    found->runs = !is_free;
  }
  return found;
}

Result<std::shared_ptr<LaunchedPart>> LaunchedPart::Start(AsioLoop& loop,
                                                          const std::filesystem::path& file,
                                                          const PartName& name, WorkerSpec launch,
                                                          Told told) {
  UniqueFd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) {
    return SystemError("open", file.native(), errno);
  }
  ASSIGN_OR_RETURN(const bool is_free, LockFile(lock.get(), file));
  if (!is_free) {
    return Error{ErrorKind::kUnavailable, "processes of another run are still here"};
  }
  RETURN_IF_ERROR(WritePart(lock.get(), file, name, 0));
  ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  auto part = std::make_shared<LaunchedPart>(loop, file, name, std::move(told));
  part->output_ = std::make_shared<OutputStream>(
      loop, std::move(pipe.reader),
      OutputStream::Plan{.reader = [part = part.get()](auto bytes) { part->TakeLines(bytes); }});
  part->output_->Start([] {});
  // The directory's disk may hang.
  const auto held =
      std::make_shared<std::pair<UniqueFd, UniqueFd>>(std::move(pipe.writer), std::move(lock));
  const auto under_way = std::make_shared<LaunchUnderWay>();
  const auto launched = std::make_shared<Result<LaunchedWorker>>(
      Error{ErrorKind::kUnavailable, "cannot start ddprun in '" + launch.directory.native() +
                                         "': its file system has not responded within " +
                                         FormatDuration(kSpawnLimit)});
  loop.RunBounded(
      kSpawnLimit,
      [=, launch = std::move(launch)] {
        *launched = StartLaunch(launch, held->first.get(), held->second.get(), *under_way);
        if (*launched && under_way->given_up()) {
          ::kill((*launched)->pid, SIGKILL);
          ::waitpid((*launched)->pid, nullptr, 0);
        } else if (*launched) {
          (void)WritePart(held->second.get(), file, name, (*launched)->pid);
        }
      },
      [=, weak = std::weak_ptr(part), late = launched->error()](bool in_time) {
        if (!in_time) {
          under_way->GiveUp();
        }
        if (const auto self = weak.lock()) {
          self->OnLaunched(in_time ? std::move(*launched) : late);
        }
      });
  return part;
}

void LaunchedPart::OnLaunched(Result<LaunchedWorker> launched) {
  if (!launched) {
    told_.said("ddprun: error: " + launched.error().message);
    code_ = kExitUnavailable;
    return Look();
  }
  is_child_ = true;
  Watch(launched->pid, std::move(launched->pidfd));
}

void LaunchedPart::Watch(pid_t guard, UniqueFd pidfd) {
  guard_ = guard;
  if (!pidfd) {
    return Look();
  }
  pidfd_.assign(pidfd.Release());
  pidfd_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                    [weak = weak_from_this()](boost::system::error_code error) {
                      if (const auto self = weak.lock(); self && !error) {
                        self->Look();
                      }
                    });
  for (const int signal : early_) {
    ::kill(guard_, signal);
  }
}

std::shared_ptr<LaunchedPart> LaunchedPart::Adopt(AsioLoop& loop, const std::filesystem::path& file,
                                                  const Found& found, Told told) {
  auto part = std::make_shared<LaunchedPart>(loop, file, found.name, std::move(told));
  part->Watch(found.guard, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, found.guard, 0))));
  return part;
}

LaunchedPart::LaunchedPart(AsioLoop& loop, std::filesystem::path file, PartName name, Told told)
    : loop_(loop),
      file_(std::move(file)),
      name_(std::move(name)),
      told_(std::move(told)),
      pidfd_(loop.io()),
      look_(loop),
      kill_(loop) {}

LaunchedPart::~LaunchedPart() = default;

void LaunchedPart::TakeLines(std::string_view bytes) {
  std::string whole;
  lines_.Feed(bytes, loop_.Now(), whole);
  for (const std::string& line : Split(whole, '\n')) {
    told_.said(line);
  }
}

// Processes that the launch has started may outlive its guard for a moment. They hold the lock.
void LaunchedPart::Look() {
  int status = 0;
  if (is_child_ && ::waitpid(guard_, &status, WNOHANG) == guard_) {
    code_ = ShellCode(DecodeWaitStatus(status));
    is_child_ = false;
  }
  guard_ = 0;
  const Result<std::optional<Found>> found = Look(file_);
  if (!found || !*found || !(*found)->runs) {
    loop_.Post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        const auto ended = self->told_.ended;
        ended(self->code_);  // May end this part.
      }
    });
    return;
  }
  look_.ArmAt(loop_.Now() + kLookAgain, [this] { Look(); });
}

void LaunchedPart::Signal(int number) {
  if (guard_ > 0) {
    ::kill(guard_, number);
  } else {
    early_.push_back(number);
  }
}

void LaunchedPart::End() {
  if (std::exchange(ends_, true)) {
    return;
  }
  Signal(SIGTERM);
  kill_.ArmAt(loop_.Now() + kPartStopGrace, [this] { Signal(SIGKILL); });
}

}  // namespace ddprun

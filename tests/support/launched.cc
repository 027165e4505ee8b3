#include "tests/support/launched.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/check.h"
#include "tests/support/marked.h"

namespace ddprun::testing {
namespace {

constexpr std::chrono::seconds kLimit{20};

[[noreturn]] void Exec(const std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  for (const std::string& argument : argv) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  ::execv(pointers.front(), pointers.data());
  ::_exit(126);
}

}  // namespace

Launched::Launched(const std::vector<std::string>& argv, const Options& options) {
  int ends[2] = {-1, -1};
  int terminal = -1;
  if (options.terminal) {
    pid_ = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  } else {
    CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    pid_ = ::fork();
  }
  CHECK(pid_ >= 0);
  if (pid_ == 0) {
    if (!options.terminal) {
      ::dup2(ends[1], STDOUT_FILENO);
    }
    if (options.own_group) {
      ::setpgid(0, 0);
    }
    if (options.ignore_hangup) {
      ::signal(SIGHUP, SIG_IGN);
    }
    Exec(argv);
  }
  ::close(ends[1]);
  out_ = UniqueFd(options.terminal ? terminal : ends[0]);
}

Launched::~Launched() {
  if (!status_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

bool Launched::ReadSome(std::chrono::milliseconds limit) {
  pollfd readable{out_.get(), POLLIN, 0};
  if (!out_ || ::poll(&readable, 1, static_cast<int>(limit.count())) != 1) {
    return false;
  }
  char bytes[65536];
  const ssize_t got = ::read(out_.get(), bytes, sizeof bytes);  // A closed terminal says EIO.
  if (got > 0) {
    output_.append(bytes, static_cast<std::size_t>(got));
  }
  return got > 0;
}

bool Launched::ReadUntil(const std::string& text) {
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (output_.find(text) == std::string::npos) {
    if (std::chrono::steady_clock::now() > end || !ReadSome(kLimit)) {
      return false;
    }
  }
  return true;
}

void Launched::ReadToEnd() {
  while (ReadSome(kLimit)) {
  }
}

void Launched::Type(const std::string& keys) {
  CHECK(::write(out_.get(), keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
}

std::optional<ExitStatus> Launched::Wait(std::chrono::milliseconds limit) {
  Eventually(
      [this] {
        int status = 0;
        if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
          status_ = WIFEXITED(status) ? ExitStatus(Exited{WEXITSTATUS(status)})
                                      : ExitStatus(Killed{WTERMSIG(status)});
        }
        return status_.has_value();
      },
      limit);
  return status_;
}

bool Launched::Stopped() {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid_;
}

}  // namespace ddprun::testing

#include "agent/limited_child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "agent/workers/close_descriptors.h"

namespace ddprun {
namespace {

constexpr Duration kToDie{200};  // After SIGKILL.
constexpr Duration kRemovalPatience{3'000};
constexpr Duration kRemovalHurry{200};

}  // namespace

WorkEnd RunInChild(const std::function<bool()>& work, Duration limit, Duration hurry,
                   const std::function<bool()>& moment) {
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(::getppid() == self && work() ? 0 : 1);
  }
  auto end = std::chrono::steady_clock::now() + limit;
  int status = 1;
  bool killed = false;
  while (child > 0 && ::waitpid(child, &status, WNOHANG) == 0) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end && std::exchange(killed, true)) {
      break;
    }
    if (now >= end) {
      ::kill(child, SIGKILL);
      end = now + kToDie;
    }
    end = moment() ? std::min(end, now + hurry) : end;
  }
  return killed ? WorkEnd::kKilled : status == 0 ? WorkEnd::kDone : WorkEnd::kFailed;
}

std::string RemoveInTime(const std::string& directory, const std::function<bool()>& moment) {
  const auto remove = [&] {
    (void)ChangeDescriptors(0, Descriptors::kClosed);  // It keeps none of other processes open.
    struct stat info {};
    std::error_code error;
    if (::lstat(directory.c_str(), &info) == 0) {  // It may never have come to be.
      std::filesystem::remove_all(directory, error);
    }
    return !error;
  };
  const std::string left = "'" + directory + "' is left behind: ";
  switch (RunInChild(remove, kRemovalPatience, kRemovalHurry, moment)) {
    case WorkEnd::kDone:
      break;
    case WorkEnd::kFailed:
      return left + "cannot remove it";
    case WorkEnd::kKilled:
      return left + "removing it takes too long (is its file system responding?)";
  }
  return "";
}

}  // namespace ddprun

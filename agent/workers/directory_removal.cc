#include "agent/workers/directory_removal.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "agent/workers/close_descriptors.h"
#include "common/time.h"

namespace ddprun {
namespace {

constexpr Duration kRemovalPatience{3'000};
constexpr Duration kRemovalMoment{200};  // Where the caller does not want to wait.

// It keeps no descriptor of any other process open.
pid_t BeginToRemove(const std::string& directory) {
  const pid_t child = ::fork();
  if (child != 0) {
    return child;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)ChangeDescriptors(0, Descriptors::kClosed);
  struct stat info {};
  std::error_code error;
  if (::lstat(directory.c_str(), &info) == 0) {  // It may never have come to be.
    std::filesystem::remove_all(directory, error);
  }
  ::_exit(error ? 1 : 0);
}

bool RemovalEndsWithin(Duration limit, pid_t child, const std::function<bool()>& wait,
                       int& status) {
  auto end = std::chrono::steady_clock::now() + limit;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) {
      return false;
    }
    end = wait() ? std::min(end, now + kRemovalMoment) : end;
  }
  return true;
}

}  // namespace

std::string RemoveInTime(const std::string& directory, const std::function<bool()>& wait) {
  int status = 1;
  const pid_t child = BeginToRemove(directory);
  const std::string left = "'" + directory + "' is left behind: ";
  if (child > 0 && !RemovalEndsWithin(kRemovalPatience, child, wait, status)) {
    ::kill(child, SIGKILL);
    RemovalEndsWithin(kRemovalMoment, child, wait, status);
    return left + "removing it takes too long (is its file system responding?)";
  }
  return status == 0 ? "" : left + "it could not be removed";
}

}  // namespace ddprun

#include "launcher/server/descriptors.h"

#include <sys/resource.h>

#include <string>

#include "agent/workers/worker_launcher.h"

namespace ddprun {

void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

Result<void> HaveDescriptors() {
  constexpr rlim_t kLeast = 24;  // 20 for one worker; its pipes come on top.
  UserLimits();
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kLeast) {
    return {};
  }
  RaiseFileLimit();
  if (limit.rlim_max >= kLeast) {
    return {};
  }
  return Error{ErrorKind::kRefused, "ddprun may have " + std::to_string(limit.rlim_max) +
                                        " open files (ulimit -n), which is too few. It needs " +
                                        std::to_string(kLeast) +
                                        ", and up to ten more for each worker [descriptor-limit]"};
}

}  // namespace ddprun

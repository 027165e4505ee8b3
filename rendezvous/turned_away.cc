#include "rendezvous/turned_away.h"

#include <sys/resource.h>

#include <algorithm>

namespace ddprun {

void TurnedAway::Note(const std::string& peer, std::string_view reason) {
  ++count_;
  lines_.Say(LogLevel::kWarning, who_ + ": closed a connection: " + std::string(reason),
             who_ + ": closed the connection of " + peer + ": " + std::string(reason) + " (" +
                 std::to_string(count_) + " so far)");
}

bool LeavesRoom(int descriptor) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return true;
  }
  const auto all = static_cast<std::int64_t>(limit.rlim_cur);
  return descriptor < all - std::min<std::int64_t>(kSpareDescriptors, all / 4);
}

}  // namespace ddprun

#include "rendezvous/listener/rejected.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "common/slug.h"

namespace ddprun {
namespace {

std::int64_t AllDescriptors() {
  constexpr auto kNoEnd = std::numeric_limits<std::int64_t>::max();
  rlimit limit{};
  const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kNoEnd;
  return known ? static_cast<std::int64_t>(limit.rlim_cur) : kNoEnd;
}

}  // namespace

void RejectedConnections::Note(const std::string& peer, std::string_view reason) {
  ++count_;
  const std::string why(reason);
  lines_.Say(LogLevel::kWarning, who_ + ": closed a connection: " + WithoutSlug(why),
             who_ + ": closed the connection of " + peer + ": " +
                 Continue(why, " (" + std::to_string(count_) + " so far)"));
}

bool LeavesRoom(int descriptor) {
  const std::int64_t all = AllDescriptors();
  return descriptor < all - std::min<std::int64_t>(kSpareDescriptors, all / 4);
}

std::size_t OneDescriptorIn(std::size_t many) {
  return static_cast<std::size_t>(AllDescriptors()) / many;
}

}  // namespace ddprun

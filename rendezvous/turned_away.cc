#include "rendezvous/turned_away.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace ddprun {
namespace {

constexpr Duration kWindow = std::chrono::seconds(10);

}  // namespace

void TurnedAway::Note(const std::string& peer, std::string_view reason) {
  ++count_;
  const Time now = loop_.Now();
  if (now - window_ > kWindow) {
    window_ = now;
    logged_ = 0;
    if (const std::uint64_t more = std::exchange(not_logged_, 0); more > 0) {
      Log(LogLevel::kWarning, who_ + ": " + std::to_string(more) +
                                  " more connections were closed for reasons like these");
    }
  }
  if (++logged_ > lines_) {
    ++not_logged_;
    return;
  }
  Log(LogLevel::kWarning, who_ + ": closed the connection of " + peer + ": " + std::string(reason) +
                              " (" + std::to_string(count_) + " so far)");
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

// Counts connections that were rejected, or closed for what they did, and logs some of them. Also
// decides whether there is room for another one at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/listener/log_rate_limiter.h"

namespace ddprun {

// On the loop.
class RejectedConnections {
 public:
  // `who` begins each line.
  RejectedConnections(Loop& loop, std::string who) : who_(std::move(who)), lines_(loop) {}

  void Note(const std::string& peer, std::string_view reason);
  std::uint64_t count() const { return count_; }

 private:
  const std::string who_;
  RateLimitedLog lines_;
  std::uint64_t count_ = 0;
};

// So many descriptors, or a quarter of the limit if that is less, stay free for everything else
// that a process opens: unauthenticated peers cannot take them.
inline constexpr int kSpareDescriptors = 256;

// For a descriptor just made. Descriptors are given lowest first, so its number tells how many are
// in use.
bool LeavesRoom(int descriptor);
// Of all that there may be, one in so many.
std::size_t OneDescriptorIn(std::size_t many);

}  // namespace ddprun

// Connections that are not taken in, or closed for what they did: counted and said without filling
// a log. And whether there is room for another one at all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/loop.h"

namespace ddprun {

// On the loop.
class TurnedAway {
 public:
  // `who` begins each line; so many lines in ten seconds, then one with the number of the others.
  TurnedAway(Loop& loop, std::string who, std::uint64_t lines)
      : loop_(loop), who_(std::move(who)), lines_(lines) {}

  void Note(const std::string& peer, std::string_view reason);
  std::uint64_t count() const { return count_; }

 private:
  Loop& loop_;
  const std::string who_;
  const std::uint64_t lines_;
  Time window_;
  std::uint64_t logged_ = 0;
  std::uint64_t not_logged_ = 0;
  std::uint64_t count_ = 0;
};

// So many descriptors, or a quarter of the limit if that is less, stay free for everything else
// that a process opens: strangers cannot take them.
inline constexpr int kSpareDescriptors = 256;

// For a descriptor just made. Descriptors are given lowest first, so its number tells how many are
// in use.
bool LeavesRoom(int descriptor);

}  // namespace ddprun

// Says a few of the lines that anybody can cause as often as he likes: five for each reason in ten
// seconds, then one with the number of the others. Nothing else that an unauthenticated peer does
// is logged.
//
// FewLines is pure: time comes from the caller. Reasons are the program's own words, never a
// peer's; beyond kMostReasons at once they are one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "common/loop.h"

namespace ddprun {

inline constexpr std::uint64_t kLinesOfAReason = 5;
inline constexpr Duration kLinesCount{10'000};
inline constexpr std::size_t kMostReasons = 32;

class FewLines {
 public:
  // Whether this one is to be said.
  bool Admits(std::string_view reason, Time now);

  // Of the windows that are over by now, what was not said: "REASON (245 times more)".
  std::vector<std::string> Rest(Time now);
  // When the first window is over; nullopt: none is open.
  std::optional<Time> NextRest() const;

 private:
  struct Window {
    Time until;
    std::uint64_t lines = 0;
  };
  std::map<std::string, Window, std::less<>> windows_;
};

// The same in the log. On the loop.
class FewLogLines {
 public:
  explicit FewLogLines(Loop& loop) : loop_(loop), rest_(loop) {}

  // False: it is only counted. An empty reason: nobody outside can cause it, so it is always said.
  bool Say(LogLevel level, std::string_view reason, std::string_view line);

 private:
  void Arm();

  Loop& loop_;
  FewLines lines_;
  LoopTimer rest_;
};

}  // namespace ddprun

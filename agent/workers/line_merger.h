// Lines that several ranks say alike, said once: "[8 ranks] loading data", "[ranks 0-2,5] ...". Or
// several hosts, as its plan says.
//
// A line waits until all ranks whose lines are shown here have said it, and for the plan's patience
// at most; what comes behind it waits with it, so that each rank's lines stay in their order. A
// rank that says it twice has said two lines. Pure and bounded: beyond kRoom or kMostLines what
// waits longest goes at once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/time.h"

namespace ddprun {

class LineMerger {
 public:
  static constexpr Duration kPatience{200};
  static constexpr std::size_t kRoom = 256 * 1024;
  static constexpr std::size_t kMostLines = 1'024;

  struct Plan {
    Duration patience = kPatience;
    std::function<bool(std::string_view line)> merges;  // None: all lines are merged.
    // The words before a line. None: they name the ranks.
    std::function<std::string(const std::set<std::uint32_t>& ranks)> names;
  };
  explicit LineMerger(Plan plan) : plan_(std::move(plan)) {}

  // Of the generation whose lines come from now on: so many ranks are shown here, of so many.
  void Expect(std::uint32_t shown, std::uint32_t world);

  // `line` without its end. Appends to `out` what need not wait.
  void Add(std::uint32_t rank, std::string_view line, Time now, std::string& out);

  // Appends what has waited long enough.
  void TakeDue(Time now, std::string& out);
  // All of it.
  void TakeAll(std::string& out);

  // When something is due; nullopt: nothing waits.
  std::optional<Time> due() const;

 private:
  struct Line {
    std::string text;
    std::size_t hash = 0;
    std::set<std::uint32_t> ranks;
    Time since;
    bool alone = false;  // It is not merged.
  };

  // The first of them from `from` on that says this; none: a new one at the end.
  std::uint64_t FindOrAdd(std::string_view text, std::uint64_t from, Time now);
  void TakeFirst(std::string& out);
  bool IsWhole(const Line& line) const { return line.alone || line.ranks.size() >= shown_; }
  std::string NamesOf(const std::set<std::uint32_t>& ranks) const;

  const Plan plan_;
  std::uint32_t shown_ = 1;
  std::uint32_t world_ = 1;
  std::deque<Line> lines_;
  std::uint64_t taken_ = 0;                                // Lines before lines_[0].
  std::set<std::pair<std::size_t, std::uint64_t>> index_;  // Hash and number of each line.
  std::map<std::uint32_t, std::uint64_t> next_;  // Rank: the first that it may still join.
  std::size_t bytes_ = 0;
};

}  // namespace ddprun

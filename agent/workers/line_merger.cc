#include "agent/workers/line_merger.h"

#include <algorithm>
#include <functional>

#include "common/text.h"

namespace ddprun {

void LineMerger::Expect(std::uint32_t shown, std::uint32_t world) {
  shown_ = shown;
  world_ = world;
}

void LineMerger::Add(std::uint32_t rank, std::string_view line, Time now, std::string& out) {
  std::uint64_t& next = next_[rank];
  const bool behind = next > taken_;  // Of a line of its own that waits.
  if (!behind && plan_.merges && !plan_.merges(line)) {
    out += "[" + NamesOf({rank}) + "] " + std::string(line) + "\n";
    return;
  }
  const std::uint64_t number = FindOrAdd(line, std::max(next, taken_), now);
  lines_[number - taken_].ranks.insert(rank);
  next = number + 1;
  TakeDue(now, out);
}

std::uint64_t LineMerger::FindOrAdd(std::string_view text, std::uint64_t from, Time now) {
  const bool alone = plan_.merges && !plan_.merges(text);
  const std::size_t hash = std::hash<std::string_view>()(text);
  for (auto one = index_.lower_bound({hash, from});
       !alone && one != index_.end() && one->first == hash; ++one) {
    if (lines_[one->second - taken_].text == text) {
      return one->second;
    }
  }
  const std::uint64_t number = taken_ + lines_.size();
  bytes_ += text.size();
  lines_.push_back({std::string(text), hash, {}, now, alone});
  index_.insert({hash, number});
  return number;
}

void LineMerger::TakeDue(Time now, std::string& out) {
  while (!lines_.empty() &&
         (IsWhole(lines_.front()) || now >= lines_.front().since + plan_.patience ||
          bytes_ > kRoom || lines_.size() > kMostLines)) {
    TakeFirst(out);
  }
}

void LineMerger::TakeAll(std::string& out) {
  while (!lines_.empty()) {
    TakeFirst(out);
  }
}

std::string LineMerger::NamesOf(const std::set<std::uint32_t>& ranks) const {
  return plan_.names              ? plan_.names(ranks)
         : ranks.size() == 1      ? "rank " + std::to_string(*ranks.begin())
         : ranks.size() == world_ ? std::to_string(world_) + " ranks"
                                  : "ranks " + RangesOf(ranks, ",");
}

void LineMerger::TakeFirst(std::string& out) {
  const Line& line = lines_.front();
  out += "[" + NamesOf(line.ranks) + "] " + line.text + "\n";
  bytes_ -= line.text.size();
  index_.erase({line.hash, taken_});
  lines_.pop_front();
  ++taken_;
}

std::optional<Time> LineMerger::due() const {
  return lines_.empty() ? std::nullopt : std::optional(lines_.front().since + plan_.patience);
}

}  // namespace ddprun

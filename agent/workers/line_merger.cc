#include "agent/workers/line_merger.h"

#include <algorithm>
#include <functional>

#include "common/text.h"

namespace ddprun {
namespace {}  // namespace

void LineMerger::Expect(std::uint32_t shown, std::uint32_t world) {
  shown_ = shown;
  world_ = world;
}

void LineMerger::Add(std::uint32_t rank, std::string_view line, Time now, std::string& out) {
  std::uint64_t& next = next_[rank];
  const std::uint64_t number = FindOrAdd(line, std::max(next, taken_), now);
  lines_[number - taken_].ranks.insert(rank);
  next = number + 1;
  TakeDue(now, out);
}

std::uint64_t LineMerger::FindOrAdd(std::string_view text, std::uint64_t from, Time now) {
  const std::size_t hash = std::hash<std::string_view>()(text);
  for (auto one = index_.lower_bound({hash, from}); one != index_.end() && one->first == hash;
       ++one) {
    if (lines_[one->second - taken_].text == text) {
      return one->second;
    }
  }
  const std::uint64_t number = taken_ + lines_.size();
  bytes_ += text.size();
  lines_.push_back({std::string(text), hash, {}, now});
  index_.insert({hash, number});
  return number;
}

void LineMerger::TakeDue(Time now, std::string& out) {
  while (!lines_.empty() && (IsWhole(lines_.front()) || now >= lines_.front().since + kPatience ||
                             bytes_ > kRoom || lines_.size() > kMostLines)) {
    TakeFirst(out);
  }
}

void LineMerger::TakeAll(std::string& out) {
  while (!lines_.empty()) {
    TakeFirst(out);
  }
}

void LineMerger::TakeFirst(std::string& out) {
  const Line& line = lines_.front();
  if (line.ranks.size() == 1) {
    out += "[rank " + std::to_string(*line.ranks.begin());
  } else if (line.ranks.size() == world_) {
    out += "[" + std::to_string(world_) + " ranks";
  } else {
    out += "[ranks " + RangesOf(line.ranks, ",");
  }
  out += "] " + line.text + "\n";
  bytes_ -= line.text.size();
  index_.erase({line.hash, taken_});
  lines_.pop_front();
  ++taken_;
}

std::optional<Time> LineMerger::due() const {
  return lines_.empty() ? std::nullopt : std::optional(lines_.front().since + kPatience);
}

}  // namespace ddprun

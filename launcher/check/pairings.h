// Which nodes meet in pairs, and which of them are slow by what came of it. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

using NodePair = std::pair<std::size_t, std::size_t>;

// Rounds in each of which every node has one partner at most, nobody meets anybody twice, and every
// node meets `most` others, or all.
std::vector<std::vector<NodePair>> Rounds(std::size_t nodes, std::size_t most);

struct PairResult {
  NodePair nodes;
  double there = 0;    // Bytes a second, from the first to the second,
  double back = 0;     // and from that one.
  double latency = 0;  // Seconds, there and back.
  std::string error;   // They did not meet.
  double Rate() const { return error.empty() ? std::min(there, back) : 0; }
};

enum class SlowKind { kHost, kFarHost, kLink, kNoLink };

struct SlowPart {
  SlowKind kind = SlowKind::kHost;
  NodePair nodes;  // Of a host: its number twice.
  double value = 0;
  double usual = 0;  // The median of the others.
  std::string error = {};
};

// A host is slow whose best pair is less than half of the median of the others' best ones; far one
// whose latency is 5 times theirs and half a millisecond more; a link is slow that has less than
// half of what both of its hosts have elsewhere. Of two nodes nobody can tell.
std::vector<SlowPart> FindSlow(std::size_t nodes, const std::vector<PairResult>& results);

// The pairs by which that was judged: to be measured once more, alone.
std::vector<NodePair> Suspects(const std::vector<SlowPart>& slow,
                               const std::vector<PairResult>& results);

double BestRate(std::size_t node, const std::vector<PairResult>& results);
double LeastLatency(std::size_t node, const std::vector<PairResult>& results);

}  // namespace ddprun

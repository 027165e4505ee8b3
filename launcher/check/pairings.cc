#include "launcher/check/pairings.h"

#include <algorithm>
#include <limits>
#include <set>

namespace ddprun {
namespace {

constexpr double kSlow = 0.5;
constexpr double kFar = 5;
constexpr double kFarSeconds = 0.0005;

bool Has(const PairResult& result, std::size_t node) {
  return result.nodes.first == node || result.nodes.second == node;
}

double Median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double MedianOfOthers(std::size_t nodes, std::size_t but, const std::vector<PairResult>& results,
                      double (*of)(std::size_t, const std::vector<PairResult>&)) {
  std::vector<double> values;
  for (std::size_t node = 0; node < nodes; ++node) {
    if (node != but) {
      values.push_back(of(node, results));
    }
  }
  return Median(std::move(values));
}

}  // namespace

// All stand in a circle but the first, which stays; each round the others move on by one.
std::vector<std::vector<NodePair>> Rounds(std::size_t nodes, std::size_t most) {
  std::vector<std::vector<NodePair>> rounds;
  const std::size_t seats = nodes + nodes % 2;  // Whoever meets the empty one pauses.
  for (std::size_t round = 0; seats > 1 && round < std::min(seats - 1, most); ++round) {
    std::vector<NodePair>& pairs = rounds.emplace_back();
    const auto seat = [&](std::size_t i) { return i == 0 ? 0 : (i - 1 + round) % (seats - 1) + 1; };
    for (std::size_t i = 0; i < seats / 2; ++i) {
      const std::size_t a = seat(i);
      const std::size_t b = seat(seats - 1 - i);
      if (a < nodes && b < nodes) {
        pairs.emplace_back(std::min(a, b), std::max(a, b));
      }
    }
  }
  return rounds;
}

double BestRate(std::size_t node, const std::vector<PairResult>& results) {
  double best = 0;
  for (const PairResult& result : results) {
    best = Has(result, node) ? std::max(best, result.Rate()) : best;
  }
  return best;
}

double LeastLatency(std::size_t node, const std::vector<PairResult>& results) {
  double least = std::numeric_limits<double>::infinity();
  for (const PairResult& result : results) {
    least = Has(result, node) && result.error.empty() ? std::min(least, result.latency) : least;
  }
  return least;
}

std::vector<SlowPart> FindSlow(std::size_t nodes, const std::vector<PairResult>& results) {
  std::vector<SlowPart> slow;
  std::set<std::size_t> hosts;
  for (std::size_t node = 0; nodes > 2 && node < nodes; ++node) {
    const double rate = BestRate(node, results);
    const double usual = MedianOfOthers(nodes, node, results, BestRate);
    const double latency = LeastLatency(node, results);
    const double usual_latency = MedianOfOthers(nodes, node, results, LeastLatency);
    if (rate < kSlow * usual) {
      slow.push_back({SlowKind::kHost, {node, node}, rate, usual});
      hosts.insert(node);
    } else if (latency > kFar * usual_latency && latency > usual_latency + kFarSeconds) {
      slow.push_back({SlowKind::kFarHost, {node, node}, latency, usual_latency});
    }
  }
  for (const PairResult& result : results) {
    const auto [a, b] = result.nodes;
    const double usual = std::min(BestRate(a, results), BestRate(b, results));
    if (hosts.contains(a) || hosts.contains(b)) {
      continue;  // It is the host.
    }
    if (!result.error.empty()) {
      slow.push_back({SlowKind::kNoLink, result.nodes, 0, usual, result.error});
    } else if (nodes > 2 && result.Rate() < kSlow * usual) {
      slow.push_back({SlowKind::kLink, result.nodes, result.Rate(), usual});
    }
  }
  return slow;
}

std::vector<NodePair> Suspects(const std::vector<SlowPart>& slow,
                               const std::vector<PairResult>& results) {
  std::set<NodePair> pairs;
  for (const SlowPart& part : slow) {
    if (part.kind == SlowKind::kLink || part.kind == SlowKind::kNoLink) {
      pairs.insert(part.nodes);
      continue;
    }
    const PairResult* best = nullptr;
    for (const PairResult& result : results) {
      const bool better = best == nullptr || result.Rate() > best->Rate();
      best = Has(result, part.nodes.first) && better ? &result : best;
    }
    if (best != nullptr) {
      pairs.insert(best->nodes);
    }
  }
  return {pairs.begin(), pairs.end()};
}

}  // namespace ddprun

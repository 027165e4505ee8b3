#include "launcher/headline.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <vector>

#include "common/text.h"

namespace ddprun {
namespace {

// Without a step for so many usual ones, and so long at least, a run is said to stand.
constexpr double kStandsAfter = 10;
constexpr double kStandsAtLeast = 5;

constexpr std::size_t kMostDiffering = 4;   // Ranks that differ from all others.
constexpr std::size_t kLongestRanges = 40;  // Characters.

double InSeconds(std::chrono::microseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string WithUnit(double seconds) {
  return FormatDuration(
      std::chrono::microseconds(static_cast<std::int64_t>(std::llround(seconds * 1e6))));
}

bool Runs(const RankDetail& rank) {
  return rank.state == RankState::kRunning || rank.state == RankState::kLate;
}

// How long no rank of the world has made a step or changed its phase; nullopt: no rank reports any.
std::optional<double> StandsFor(const RunStatus& run) {
  std::optional<Duration> least;
  for (const NodeStatus& node : run.nodes) {
    for (const RankDetail& rank : node.rank_details.ranks) {
      if (Runs(rank)) {
        const Duration since = rank.since + node.last_seen;
        least = least ? std::min(*least, since) : since;
      }
    }
  }
  return least ? std::optional(InSeconds(*least)) : std::nullopt;
}

struct RankPosition {
  std::uint64_t step = 0;
  std::string phase;
  auto operator<=>(const RankPosition&) const = default;
};

std::string Describe(const RankPosition& position) {
  const std::string step = "step " + std::to_string(position.step);
  return position.phase.empty() ? " at " + step : " in " + position.phase + " (" + step + ")";
}

// ": rank 21 on n10 stands in data (step 59), the other 31 in all_reduce (step 59)". Empty: no few
// ranks differ from the many, on whichever side they are.
std::string WhoDiffers(const RunStatus& run) {
  std::map<RankPosition, std::vector<std::string>> groups;
  std::size_t all = 0;
  for (const NodeStatus& node : run.nodes) {
    std::uint32_t number = node.first_rank;
    for (const RankDetail& rank : node.rank_details.ranks) {
      if (node.in_world && Runs(rank)) {
        groups[{rank.step, PhaseOf(node.rank_details, rank)}].push_back(
            "rank " + std::to_string(number) + " on " + node.node);
        ++all;
      }
      ++number;
    }
  }
  const auto many =
      std::ranges::max_element(groups, {}, [](const auto& group) { return group.second.size(); });
  if (many == groups.end() || many->second.size() * 4 < all * 3 || many->second.size() == all ||
      all - many->second.size() > kMostDiffering) {
    return "";
  }
  std::string text;
  for (const auto& [position, ranks] : groups) {
    for (const std::string& rank : position == many->first ? std::vector<std::string>() : ranks) {
      text += (text.empty() ? ": " : ", ") + rank + " stands" + Describe(position);
    }
  }
  return text + ", the other " + std::to_string(many->second.size()) + Describe(many->first);
}

// "ranks 0-2, 7"; too many numbers: "513 ranks".
std::string RanksIn(const std::vector<std::uint32_t>& ranks) {
  const std::string ranges = RangesOf(ranks, ", ");
  return ranges.size() > kLongestRanges ? std::to_string(ranks.size()) + " ranks"
                                        : (ranks.size() == 1 ? "rank " : "ranks ") + ranges;
}

// ": ranks 0-2 wait in a collective; not in it: rank 3 on n1", and what to do next. Empty: no rank
// waits in one.
std::string WhoWaits(const RunStatus& run) {
  std::vector<std::uint32_t> waiting;
  std::vector<std::uint32_t> missing;
  std::string names;  // Of the missing ones, with their nodes.
  for (const NodeStatus& node : run.nodes) {
    std::uint32_t number = node.first_rank;
    for (const RankDetail& rank : node.rank_details.ranks) {
      const bool waits = Runs(rank) && PhaseOf(node.rank_details, rank) == kInCollective;
      if (node.in_world) {
        (waits ? waiting : missing).push_back(number);
      }
      if (node.in_world && !waits && missing.size() <= kMostDiffering) {
        names += (names.empty() ? "rank " : ", rank ") + std::to_string(number) + " on " +
                 node.node + (rank.state == RankState::kEnded ? " (ended)" : "");
      }
      ++number;
    }
  }
  if (waiting.empty()) {
    return "";
  }
  std::ranges::sort(waiting);
  std::ranges::sort(missing);
  const std::string text =
      ": " + RanksIn(waiting) + (waiting.size() == 1 ? " waits" : " wait") + " in a collective";
  return missing.empty()
             ? text
             : text +
                   "; not in it: " + (missing.size() <= kMostDiffering ? names : RanksIn(missing)) +
                   " (`ddprun stacks` shows where they are)";
}

// For how long the run stands, as its headline says; nullopt: it does not. Where only
// collectives are counted the time of a step is not known, so a rank must wait in a collective.
std::optional<double> Stands(const RunStatus& run, double usual) {
  const std::optional<double> standing = StandsFor(run);
  const bool stands = standing && LowestStep(run) > 0 &&
                      *standing > std::max(kStandsAtLeast, kStandsAfter * usual) &&
                      (usual > 0 || !WhoWaits(run).empty());
  return stands ? standing : std::nullopt;
}

// The headline of a run that stands.
std::string StandingText(const RunStatus& run, double standing, double usual) {
  const std::string waits = WhoWaits(run);
  return (usual > 0 ? "no step for " + WithUnit(standing) + " (usual " + WithUnit(usual) + ")"
                    : "no progress for " + WithUnit(standing)) +
         (waits.empty() ? WhoDiffers(run) : waits);
}

// The headline of a run without any step. Its ranks may begin one after the other.
std::string BeginningText(const RunStatus& run) {
  if (!StandsFor(run)) {
    return "running (no step reported; call ddprun.step() or set --progress-from=auto)";
  }
  return "running (no step reported yet)" +
         (InSeconds(run.phase_since) > kStandsAtLeast ? WhoWaits(run) : "");
}

}  // namespace

const char* WordOf(RankState state) {
  switch (state) {
    case RankState::kNoWord:
      return "";
    case RankState::kRunning:
      return "running";
    case RankState::kLate:
      return "late";
    case RankState::kEnded:
      return "ended";
  }
  return "";
}

std::string PhaseOf(const RankDetails& details, const RankDetail& rank) {
  return rank.phase > 0 && rank.phase <= details.phases.size() ? details.phases[rank.phase - 1]
                                                               : "";
}

std::uint64_t LowestStep(const RunStatus& run) {
  std::optional<std::uint64_t> step;
  for (const NodeStatus& node : run.nodes) {
    if (node.in_world) {
      step = step ? std::min(*step, node.step) : node.step;
    }
  }
  return step.value_or(0);
}

double UsualStep(const RunStatus& run) {
  std::vector<std::chrono::microseconds> times;
  for (const NodeStatus& node : run.nodes) {
    for (const RankDetail& rank : node.rank_details.ranks) {
      if (rank.step_time.count() > 0) {
        times.push_back(rank.step_time);
      }
    }
  }
  if (times.empty()) {
    return 0;
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return InSeconds(*middle);
}

RunHeadline HeadlineOf(const RunStatus& run) {
  if (!run.outcome.empty()) {
    return {run.outcome, run.exit_code != 0};
  }
  if (!run.waits_for.empty()) {
    return {run.waits_for};
  }
  const double usual = UsualStep(run);
  const std::uint64_t step = LowestStep(run);
  if (step == 0) {
    return {BeginningText(run)};
  }
  if (const std::optional<double> stands = Stands(run, usual)) {
    return {StandingText(run, *stands, usual), true};
  }
  const bool counted = std::ranges::any_of(run.nodes, [](const NodeStatus& node) {
    return node.in_world && node.step_source == "collectives";
  });
  if (counted) {
    return {"training: " + std::to_string(step) + (step == 1 ? " collective" : " collectives")};
  }
  std::string text = "training: step " + std::to_string(step);
  if (run.steps >= step) {
    text += " of " + std::to_string(run.steps);
  }
  return {usual > 0 ? text + ", " + WithUnit(usual) + " each" : text};
}

Duration LosingNow(const RunStatus& run) {
  if (!run.outcome.empty()) {
    return Duration{0};
  }
  const auto newest =
      std::find_if(run.events.rbegin(), run.events.rend(), [](const RunEvent& event) {
        return event.kind == kEventStopping || event.kind == kEventRecovered ||
               event.kind == kEventStarted;
      });
  if (newest != run.events.rend() && newest->kind == kEventStopping) {
    return newest->age;
  }
  const double usual = UsualStep(run);
  const std::optional<double> stands = run.waits_for.empty() ? Stands(run, usual) : std::nullopt;
  return std::chrono::round<Duration>(std::chrono::duration<double>(stands ? *stands - usual : 0));
}

bool StepsAreKnown(const RunStatus& run) {
  const auto shows = [](const auto& one) { return one.first_step.has_value(); };
  return std::ranges::any_of(run.startups, shows) || std::ranges::any_of(run.events, shows) ||
         std::ranges::any_of(run.nodes, [](const NodeStatus& node) { return node.step > 0; });
}

std::optional<double> GoodputOf(const RunStatus& run) {
  if (run.known <= Duration{0} || !StepsAreKnown(run)) {
    return {};
  }
  Duration lost = LosingNow(run);
  for (const CauseTotal& total : run.totals) {
    lost += total.lost;
  }
  return std::clamp(1 - InSeconds(lost) / InSeconds(run.known), 0.0, 1.0);
}

}  // namespace ddprun

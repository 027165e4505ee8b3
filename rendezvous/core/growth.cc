#include "rendezvous/core/growth.h"

#include <algorithm>

namespace ddprun {
namespace {

using std::chrono_literals::operator""min;

constexpr Duration kLossesCount = 10min;
constexpr std::size_t kForgiven = 1;  // Losses that cost no waiting: nodes do get cut off.
constexpr Duration kFirstHold{4'000};
constexpr Duration kLongestHold{120'000};
constexpr std::size_t kMostNodes = 4'096;  // The nodes whose losses are remembered.
constexpr std::size_t kMostLosses = 16;    // Of each node; the longest hold is reached by then.

bool MayGrow(const Roster& roster) {
  return roster.spec->scale_up && roster.world->members.size() < roster.spec->max_nodes &&
         roster.world->roll.unfinished.size() == roster.world->members.size();
}

Duration Until(Time deadline, Time now) {
  return std::max(Duration{0}, std::chrono::ceil<Duration>(deadline - now));
}

void ForgetOld(std::vector<Time>& losses, Time now) {
  std::erase_if(losses, [&](Time when) { return now - when >= kLossesCount; });
}

std::string ArrivalsInWords(const Roster& roster) {
  std::string names;
  std::size_t named = 0;
  for (const auto& [key, node] : roster.nodes) {
    if (node.filed.outsider && ++named <= kMaxNamed) {
      names += (names.empty() ? "" : " ") + key.node;
    }
  }
  return named == 1
             ? "node " + names + " joins: restarting with it"
             : "nodes " + names + (named > kMaxNamed ? " ..." : "") + " join: restarting with them";
}

}  // namespace

std::optional<std::string> ConsiderGrowth(Growth& growth, const Roster& roster, bool may_stop,
                                          const CoordinatorConfig& config, Time now) {
  const std::uint32_t arrivals = roster.index.outsiders;
  if (!may_stop || !MayGrow(roster) || arrivals == 0) {
    growth.first.reset();
    growth.go.reset();
    growth.arrivals = 0;
    return std::nullopt;
  }
  if (!growth.first) {
    growth.first = now;
  }
  if (arrivals > growth.arrivals) {
    growth.go = std::min(now + config.settle, *growth.first + config.settle_limit);
  }
  growth.arrivals = arrivals;
  const std::size_t room = roster.spec->max_nodes - roster.world->members.size();
  const bool now_is_the_time = arrivals >= room || now >= *growth.go;
  return now_is_the_time ? std::optional(ArrivalsInWords(roster)) : std::nullopt;
}

void NoteLoss(Growth& growth, const NodeId& node, Time now) {
  std::vector<Time>& losses = growth.losses[node];
  ForgetOld(losses, now);
  losses.push_back(now);
  if (losses.size() > kMostLosses) {
    losses.erase(losses.begin());
  }
  if (growth.losses.size() > kMostNodes) {
    growth.losses.erase(std::min_element(
        growth.losses.begin(), growth.losses.end(),
        [](const auto& a, const auto& b) { return a.second.back() < b.second.back(); }));
  }
}

std::optional<Held> HoldBack(const Growth& growth, const NodeId& node, Time now) {
  const auto found = growth.losses.find(node);
  if (found == growth.losses.end()) {
    return std::nullopt;
  }
  std::vector<Time> losses = found->second;
  ForgetOld(losses, now);
  if (losses.size() <= kForgiven) {
    return std::nullopt;
  }
  Duration hold = kFirstHold;
  for (std::size_t i = kForgiven + 1; i < losses.size() && hold < kLongestHold; ++i) {
    hold *= 2;
  }
  const Time until = losses.back() + std::min(hold, kLongestHold);
  if (until <= now) {
    return std::nullopt;
  }
  return Held{until, static_cast<std::uint32_t>(losses.size()),
              std::chrono::ceil<std::chrono::seconds>(now - losses.front())};
}

void ExplainHold(const Held& held, Time now, WaitReason& reason) {
  reason.what = WaitFor::kHeldBack;
  reason.losses = held.losses;
  reason.span = held.span;
  reason.remaining = Until(held.until, now);
}

WaitReason WhyOutside(const Growth& growth, const Roster& roster, const NodeKey& key, Time now) {
  const NodeState& node = roster.nodes.at(key);
  WaitReason reason;
  reason.have = static_cast<std::uint32_t>(roster.world->members.size());
  reason.need = roster.spec->min_nodes;
  reason.want = roster.spec->max_nodes;
  if (reason.have >= reason.want) {
    reason.what = WaitFor::kSpare;
  } else if (node.held) {
    ExplainHold(*node.held, now, reason);
  } else if (roster.world->roll.unfinished.size() < reason.have) {
    reason.what = WaitFor::kFinishing;
  } else if (!roster.spec->scale_up) {
    reason.what = WaitFor::kNoGrowth;
  } else {
    reason.what = WaitFor::kSettling;
    reason.remaining = Until(growth.go.value_or(now), now);
  }
  return reason;
}

}  // namespace ddprun

#include "launcher/evidence/run_story.h"

#include <limits>
#include <utility>

namespace ddprun {

RunStatus WithoutAges(RunStatus run) {
  run.phase_since = run.known = Duration{0};
  for (NodeStatus& node : run.nodes) {
    node.last_seen = Duration{0};
    for (RankCloseup& rank : node.closeup.ranks) {
      rank.since = Duration{0};
    }
  }
  for (Startup& startup : run.startups) {
    startup.age = Duration{0};
  }
  for (RunEvent& event : run.events) {
    event.age = Duration{0};
  }
  return run;
}

OrderedJson StateInJson(const RunStory& story) {
  OrderedJson json{{"term", story.term.value},
                   {"unix_time", static_cast<double>(story.unix_ms) / 1000.0},
                   {"version", DDPRUN_VERSION},
                   {"node", story.node}};
  json.update(RunInJson(story.run, story.unix_ms / 1000));
  if (!story.remark.empty()) {
    json["headline"] = story.remark + ": " + json["headline"].get<std::string>();
  }
  return json;
}

void StoryTeller::Note(const RunEvent& event) {
  (void)history_.Merge({event}, Term{std::numeric_limits<std::uint64_t>::max()});
}

void StoryTeller::AddLastSeen(RunStatus& run) const {
  if (run.outcome.empty() || run.generation != seen_of_) {
    return;
  }
  for (NodeStatus& node : run.nodes) {
    const auto seen = seen_.find(node.node);
    if (node.closeup.ranks.empty() && seen != seen_.end()) {
      node.closeup = seen->second.closeup;
      node.step = seen->second.step;
      node.phase = seen->second.phase;
    }
  }
}

void StoryTeller::Look(const RunStatus& run, std::int64_t unix_ms) {
  if (run.generation != seen_of_) {
    seen_of_ = run.generation;
    seen_.clear();
  }
  for (const NodeStatus& node : run.nodes) {
    if (node.in_world && !node.closeup.ranks.empty()) {
      seen_[node.node] = node;
    }
  }
  const std::int64_t since = std::exchange(last_look_, unix_ms);
  if (run.training.empty() || run.training.back().step == last_step_) {
    return;
  }
  const std::uint64_t newest = run.training.back().step;
  // Steps that are trained again after a restart are told anew, the newest alone.
  const bool goes_on = newest > last_step_ && !points_.empty();
  for (const TrainingPoint& point : run.training) {
    if (point.step == newest || (goes_on && point.step > last_step_)) {
      const double part = goes_on ? static_cast<double>(point.step - last_step_) /
                                        static_cast<double>(newest - last_step_)
                                  : 1;
      const double after = part * static_cast<double>(unix_ms - since);
      points_.push_back({since + static_cast<std::int64_t>(after), point});
    }
  }
  last_step_ = newest;
  while (points_.size() > kMostTimed) {
    std::vector<TimedPoint> fewer;
    for (std::size_t i = 1 - points_.size() % 2; i < points_.size(); i += 2) {  // The last stays.
      fewer.push_back(std::move(points_[i]));
    }
    points_ = std::move(fewer);
  }
}

std::vector<RunEvent> StoryTeller::Events() const {
  return {history_.events().begin(), history_.events().end()};
}

}  // namespace ddprun

#include "launcher/evidence/run_overview.h"

#include <limits>

namespace ddprun {

RunStatus WithoutAges(RunStatus run) {
  run.phase_since = run.known = Duration{0};
  for (NodeStatus& node : run.nodes) {
    node.last_seen = Duration{0};
    for (RankDetail& rank : node.rank_details.ranks) {
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

OrderedJson StateInJson(const RunOverview& overview) {
  OrderedJson json{{"term", overview.term.value},
                   {"unix_time", static_cast<double>(overview.unix_ms) / 1000.0},
                   {"version", DDPRUN_VERSION},
                   {"node", overview.node}};
  json.update(RunInJson(overview.run, overview.unix_ms / 1000));
  if (!overview.remark.empty()) {
    json["headline"] = overview.remark + ": " + json["headline"].get<std::string>();
  }
  return json;
}

void OverviewCollector::Note(const RunEvent& event) {
  (void)history_.Merge({event}, Term{std::numeric_limits<std::uint64_t>::max()});
}

void OverviewCollector::AddLastSeen(RunStatus& run) const {
  if (run.outcome.empty() || run.generation != seen_of_) {
    return;
  }
  for (NodeStatus& node : run.nodes) {
    const auto seen = seen_.find(node.node);
    if (node.rank_details.ranks.empty() && seen != seen_.end()) {
      node.rank_details = seen->second.rank_details;
      node.step = seen->second.step;
      node.phase = seen->second.phase;
    }
  }
}

void OverviewCollector::Look(const RunStatus& run) {
  if (run.generation != seen_of_) {
    seen_of_ = run.generation;
    seen_.clear();
  }
  for (const NodeStatus& node : run.nodes) {
    if (node.in_world && !node.rank_details.ranks.empty()) {
      seen_[node.node] = node;
    }
  }
}

std::vector<RunEvent> OverviewCollector::Events() const {
  return {history_.events().begin(), history_.events().end()};
}

}  // namespace ddprun

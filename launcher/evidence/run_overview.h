// The facts about a run at one moment, in values: all that its files are made of.
//
// Pure but for its collector's memory. Bounded: events as a History.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/status_json.h"
#include "rendezvous/core/status.h"
#include "rendezvous/messages/history.h"

namespace ddprun {

struct RunOverview {
  RunStatus run;
  std::int64_t unix_ms = 0;           // As of.
  Term term;                          // Of the server that tells it.
  std::string node;                   // The node that hosts the server; empty: a server alone.
  std::string remark = {};            // Before the headline, where the run is not over.
  std::vector<RunEvent> events = {};  // All that are kept; `run` has the last ones.
};

// Without what changes by itself: ages.
RunStatus WithoutAges(RunStatus run);

// The run's state as in `ddprun status -o json`; before it `term`, `unix_time`, `version`, `node`.
OrderedJson StateInJson(const RunOverview& overview);

// Collects what no server keeps: every event, and how far the ranks were before their world was
// over.
class OverviewCollector {
 public:
  void Note(const RunEvent& event);
  void Look(const RunStatus& run);

  // Of a run that is over: its nodes as they were last seen at work.
  void AddLastSeen(RunStatus& run) const;

  std::vector<RunEvent> Events() const;

 private:
  History history_;
  Generation seen_of_;
  std::map<NodeId, NodeStatus> seen_;  // Those of this generation that ran workers.
};

}  // namespace ddprun

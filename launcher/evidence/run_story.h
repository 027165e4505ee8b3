// What is known of a run at one moment, in values: all that its files are made of.
//
// Pure but for its collector's memory. Bounded: events as a History, kMostTimed points of the
// curve, of which every other one goes when they are taken.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/status_json.h"
#include "rendezvous/core/status.h"
#include "rendezvous/messages/history.h"

namespace ddprun {

// A curve is by steps, and no rank tells when; so this is when it was looked at, and between two
// looks in even steps.
struct TimedPoint {
  std::int64_t unix_ms = 0;
  TrainingPoint point;
};

struct RunStory {
  RunStatus run;
  std::int64_t unix_ms = 0;           // As of.
  Term term;                          // Of the server that tells it.
  std::string node;                   // That carries it; empty: a server alone.
  bool whole = false;                 // With the next three: nothing is to come after it.
  std::string remark = {};            // Before the headline, where the run is not over.
  std::vector<RunEvent> events = {};  // All that are kept; `run` has the last ones.
  std::vector<TimedPoint> points = {};
};

// Without what changes by itself: ages.
RunStatus WithoutAges(RunStatus run);

// What `ddprun status -o json` tells of the run; before it `term`, `unix_time`, `version`, `node`.
OrderedJson StateInJson(const RunStory& story);

// Collects what no server keeps: every event, when points of the curve came, and how far the ranks
// were before their world was over.
class StoryTeller {
 public:
  static constexpr std::size_t kMostTimed = 1'024;

  void Note(const RunEvent& event);
  void Look(const RunStatus& run, std::int64_t unix_ms);

  // Of a run that is over: its nodes as they were last seen at work.
  void AddLastSeen(RunStatus& run) const;

  std::vector<RunEvent> Events() const;
  const std::vector<TimedPoint>& points() const { return points_; }

 private:
  History history_;
  std::vector<TimedPoint> points_;
  Generation seen_of_;
  std::map<NodeId, NodeStatus> seen_;  // Those of this generation that ran workers.
  std::uint64_t last_step_ = 0;
  std::int64_t last_look_ = 0;
};

}  // namespace ddprun

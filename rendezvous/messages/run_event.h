// Events of a run, for people and programs: one stream, of which log, status, metrics and
// events.jsonl are views.
//
// Values; nothing is decided by them. A core says what happened, its driver gives it number and
// time. Numbered from 1 in each term: (term, number) orders all events of a run, also of several
// servers. The kind is a word, so that a reader knows how to pass over one that is newer than
// itself.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/time.h"
#include "rendezvous/messages/notice.h"

namespace ddprun {

// Kinds; the documentation site shows each with its comment. First the phases of a run.

// A world was formed, with its `generation`.
inline constexpr const char* kEventFormed = "formed";
// A world must stop, by its `cause`.
inline constexpr const char* kEventStopping = "stopping";
// The world makes no progress: which rank is to blame, and why.
inline constexpr const char* kEventHung = "hung";
// All workers have stopped and are started again. Uses a restart.
inline constexpr const char* kEventRestarting = "restarting";
// All workers have stopped and are started again. Uses no restart.
inline constexpr const char* kEventStopped = "stopped";
// The first world trains, with the parts that took the time. Without `first_step_seconds` and
// `lost_seconds`: workers run, and no step is known yet; a second event follows if one is known
// later.
inline constexpr const char* kEventStarted = "started";
// A later world trains, with the same parts and their sum, `lost_seconds`.
inline constexpr const char* kEventRecovered = "recovered";
// The run has ended.
inline constexpr const char* kEventEnded = "ended";

// Then its nodes.

// A node was lost; `node` names it, as in all of the following kinds.
inline constexpr const char* kEventLost = "node_lost";
// A node asked to join and was refused.
inline constexpr const char* kEventRefused = "node_refused";
// The node check refuses a node.
inline constexpr const char* kEventUnfit = "node_unfit";
// The node check no longer refuses a node.
inline constexpr const char* kEventFit = "node_fit";
// A fact of a node's machine has turned bad (`--host-check`).
inline constexpr const char* kEventFactBad = "host_bad";
// A fact of a node's machine is well again.
inline constexpr const char* kEventFactGood = "host_good";
// The place of a lost node stays empty until its fence is over (`--fence-after`).
inline constexpr const char* kEventFenced = "node_fenced";
// A node joins, and the world stops for it.
inline constexpr const char* kEventJoins = "node_joins";
// A rank needs longer than most for each step.
inline constexpr const char* kEventSlow = "slow_rank";

// Then its server, and who operates it.

// Another server has found the run.
inline constexpr const char* kEventServer = "server";
// An operator asked for a drain or a stop.
inline constexpr const char* kEventAsked = "asked";

struct UnixTime {
  std::int64_t ms = 0;
  auto operator<=>(const UnixTime&) const = default;
};

// Place in the stream; {}: before the first.
struct EventMark {
  Term term;
  std::uint64_t number = 0;
  auto operator<=>(const EventMark&) const = default;
};

struct RunEvent {
  NoticeLevel level = NoticeLevel::kInfo;
  std::string text;            // One sentence.
  std::string reason = {};     // The notice's reason; stays with the server.
  std::string kind = {};       // One of the kinds above; a newer server may send others.
  std::string cause = {};      // Of a world's end, in one word: "worker", "hang", "node_lost", ...
  Generation generation = {};  // That it concerns; 0: none yet.
  NodeId node = {};            // Empty: no single one.
  Term term = {};              // The term of the server that reported it; set by the driver.
  std::uint64_t number = 0;    // Its number within that term; set by the driver.
  UnixTime when = {};          // When, by the server's wall clock; for messages alone.
  // When this server reported it, by its steady clock; none: another server reported it.
  std::optional<Time> told = {};
  Duration age{0};  // Filled in when it is asked for.
  // Of "started" and "recovered", part by part (core/startup); those that are known.
  std::optional<Duration> detect = {};
  std::optional<Duration> stop = {};
  std::optional<Duration> backoff = {};
  std::optional<Duration> form = {};
  std::optional<Duration> start = {};
  std::optional<Duration> state = {};
  std::optional<Duration> first_step = {};
  Duration lost{0};  // Their sum: so long nothing was trained.

  EventMark mark() const { return {term, number}; }
  bool operator==(const RunEvent&) const = default;
};

}  // namespace ddprun

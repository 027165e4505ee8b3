// What happens to a run, for people and programs: one stream, of which log, status, metrics and
// events.jsonl are views.
//
// Values; nothing is decided by them. A core says what happened, its driver gives it number and
// time. Numbered from 1 in each reign: (term, number) orders all events of a run, whoever served.
// The kind is a word, so that who reads knows how to pass over one that is newer than itself.
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

// Kinds. A run's phases:
inline constexpr const char* kEventFormed = "formed";      // A world.
inline constexpr const char* kEventStopping = "stopping";  // It must stop, by its cause.
inline constexpr const char* kEventHung = "hung";          // It makes no progress: who, and why.
inline constexpr const char* kEventRestarting = "restarting";  // It has: charged to the budget.
inline constexpr const char* kEventStopped = "stopped";        // It has: not charged.
inline constexpr const char* kEventStarted = "started";        // The first one trains.
inline constexpr const char* kEventRecovered = "recovered";    // A later one does: with parts.
inline constexpr const char* kEventEnded = "ended";            // The run.
// Its nodes:
inline constexpr const char* kEventLost = "node_lost";
inline constexpr const char* kEventRefused = "node_refused";
inline constexpr const char* kEventUnfit = "node_unfit";    // Its node check refuses it,
inline constexpr const char* kEventFit = "node_fit";        // or does so no more.
inline constexpr const char* kEventFactBad = "host_bad";    // Something is wrong with its machine,
inline constexpr const char* kEventFactGood = "host_good";  // or is no more.
inline constexpr const char* kEventFenced = "node_fenced";  // Nobody takes its place for a while.
inline constexpr const char* kEventJoins = "node_joins";    // The world stops for it.
inline constexpr const char* kEventSlow = "slow_rank";      // One takes longer than most.
// Its server, and who operates it:
inline constexpr const char* kEventServer = "server";
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
  std::string text;         // One sentence.
  std::string reason = {};  // As a notice's; stays with the server.
  std::string kind = {};
  std::string cause = {};  // In one word, what ended a world: "worker", "hang", "node_lost", ...
  Generation generation = {};  // That it concerns; 0: none yet.
  NodeId node = {};            // Empty: no single one.
  Term term = {};              // From here on the driver's: where and
  std::uint64_t number = 0;
  UnixTime when = {};             // when, by the server's wall clock: for people alone.
  std::optional<Time> told = {};  // By the steady clock of who tells it; {}: another server did.
  Duration age{0};                // Filled in when it is asked for.
  // Of "started" and "recovered", part by part (core/startup); those that are known.
  std::optional<Duration> detect = {};
  std::optional<Duration> stop = {};
  std::optional<Duration> form = {};
  std::optional<Duration> start = {};
  std::optional<Duration> state = {};
  std::optional<Duration> first_step = {};
  Duration lost{0};  // Their sum: so long nothing was trained.

  EventMark mark() const { return {term, number}; }
  bool operator==(const RunEvent&) const = default;
};

}  // namespace ddprun

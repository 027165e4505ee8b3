// The last events of a run in their order, bounded: a server's own, and those that a node has got
// and keeps for the next server.
//
// Pure. Never holds two events of one place in the stream: the first that came stays.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/messages/run_event.h"

namespace ddprun {

// The causes that ended worlds, and their costs, since the oldest event that ever was here.
struct CauseTotal {
  std::string cause;        // In one of our words; any other is "other".
  std::uint64_t ended = 0;  // Worlds that ended, whether they used a restart or not.
  Duration lost{0};         // Time without training until the next world trained.
  bool operator==(const CauseTotal&) const = default;
};

// When a server began to keep a run's events, on its two clocks. A wall clock may be set at any
// time, so it measures only what was before.
struct KeptSince {
  Time steady;
  UnixTime wall;
};

// How long ago an event was.
Duration AgeOf(const RunEvent& event, const KeptSince& kept, Time now);

class History {
 public:
  static constexpr std::size_t kMostEvents = 1'000;
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  static constexpr std::size_t kMostCauses = 8;  // With "other".
  static constexpr std::array<std::string_view, kMostCauses - 1> kCauses{
      "worker", "hang", "node_lost", "scale_up", "leave", "stop", "superseded"};

  // The newest one: after all that is here, whatever it says of its place.
  const RunEvent& Append(RunEvent event);

  // Those that are not here yet, each at its place; those of a term from `before` on are left out,
  // and so are those that had to make room before. Returns what was new.
  std::vector<RunEvent> Merge(std::vector<RunEvent> events, Term before);

  // The oldest after `mark`, so many and so large at most; those of a term from `before` on are
  // left out.
  std::vector<RunEvent> After(EventMark mark, std::size_t most, std::size_t most_bytes,
                              Term before) const;

  EventMark newest() const { return events_.empty() ? EventMark{} : events_.back().mark(); }

  // How long ago the oldest one that ever was here happened; 0: none was.
  Duration KnownFor(const KeptSince& kept, Time now) const;

  const std::deque<RunEvent>& events() const { return events_; }
  std::size_t bytes() const { return bytes_; }
  const std::vector<CauseTotal>& totals() const { return totals_; }

 private:
  void Count(const RunEvent& event);
  void Shorten();

  std::deque<RunEvent> events_;  // By their marks.
  std::size_t bytes_ = 0;
  EventMark gone_;  // The newest that made room.
  std::vector<CauseTotal> totals_;
  std::optional<RunEvent> oldest_;  // Without its texts.
};

std::size_t BytesOf(const RunEvent& event);

}  // namespace ddprun

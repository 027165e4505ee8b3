// Decides which daemons of a pool take part in which runs. Pure: no streams, no clock.
//
// A run, by its launch's request:
//
//           | enough daemons | a part ends     | all have ended | all lost | launch gone | stop
//   Waiting | Placed         | -               | -              | -        | forgotten   | Over
//   Placed  | -              | no more daemons | Over           | Waiting  | Ending      | Ending
//   Ending  | -              | -               | Over           | Over     | -           | -
//   Over    | -              | -               | -              | -        | forgotten   | -
//
// Runs are placed in the order of their tickets, and the next one waits for enough daemons even if
// a later one would need fewer. A run that lost a daemon, and has fewer than MIN, comes before all
// that wait, also by its ticket if it has none left; one below MAX gets what is left when none
// waits. A daemon serves one run at a time.
//
// A launch that is gone for kLaunchPatience ends its run. A daemon that is gone for kDaemonPatience
// counts as lost with its part. If a part has failed, and fewer than MIN others are left, these
// have kFailureGrace to end by themselves.
//
// A new server learns its state from the daemons and launches that call it; detached runs it reads
// from a file. So it places nothing for kRecovery after its start. For kDaemonPatience it ends no
// run that no daemon has reported, and gives no further daemon to a run that was placed. Tickets
// and numbers of parts begin with `first`, and never go down: the driver takes the time of day, in
// microseconds. A ticket that is a day ahead is ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/result.h"
#include "common/time.h"
#include "rendezvous/messages/pool_messages.h"

namespace ddprun {

class PoolCore {
 public:
  static constexpr Duration kRecovery{1'500};
  static constexpr Duration kLaunchPatience{1'000};
  static constexpr Duration kDaemonPatience{15'000};
  static constexpr Duration kFailureGrace{5'000};

  PoolCore(std::uint64_t first, Time now)
      : next_(first), recovers_until_(now + kRecovery), judges_at_(now + kDaemonPatience) {}

  // Takes the word of a daemon, or of a launch. kRefused: the reason why it is not accepted.
  Result<void> OnOffer(const PoolOffer& offer, Time now);
  Result<void> OnRequest(const PoolRequest& request);
  // A detached run that an earlier server has kept; its launch has gone.
  void Restore(const PoolRequest& request, Time now);
  // The detached runs, which the driver keeps for the next server.
  std::vector<PoolRequest> Detached() const;
  // The stream of a daemon, or of a launch, has ended.
  void OnDaemonGone(const std::string& name, Incarnation incarnation, Time now);
  void OnLaunchGone(const RunId& run_id, Incarnation incarnation, Time now);
  // Gives this daemon no further run. False: there is no such daemon.
  bool Drain(const std::string& name);
  // Takes a run that waits out of the queue, for good. False: none of this name waits.
  bool StopWaiting(const RunId& run_id);
  // Looks at the clock and places runs: after each of the calls above, and at NextWake.
  void Settle(Time now);
  std::optional<Time> NextWake() const;
  // Runs that got their first daemons since the last call. An earlier run of such a name has ended.
  std::vector<RunId> TakeBegun() { return std::exchange(begun_, {}); }

  PoolOrder OrderFor(const std::string& name) const;
  PoolView ViewFor(const RunId& run_id) const;
  PoolStatus Status() const;
  bool HasDaemon(const std::string& name) const { return daemons_.contains(name); }
  // The run that this daemon serves; empty: none.
  RunId RunOf(const std::string& name) const;

 private:
  struct Daemon {
    PoolOffer offer;
    bool drained = false;  // As an operator has asked.
    std::optional<Time> gone;
  };
  enum class PartPhase { kGiven, kRunning, kEnded, kLost };
  struct Part {
    std::string name;
    std::uint64_t number = 0;
    PartPhase phase = PartPhase::kGiven;
    std::optional<int> exit_code = {};
    bool left = false;  // On request: the run continues without it.
    bool lives() const { return phase == PartPhase::kGiven || phase == PartPhase::kRunning; }
  };
  struct Run {
    PoolRequest request;
    bool adopted = false;  // Only its daemons have told of it.
    bool placed = false;
    bool begun = false;      // It was placed before, here or by an earlier server.
    bool inherited = false;  // An earlier server has placed it.
    bool ends = false;
    bool over = false;
    std::optional<int> failure;    // Of the part that failed first.
    std::optional<int> last_code;  // Of the part that ended last.
    std::vector<Part> parts;
    std::optional<Time> gone;     // Its launch; none: it is there.
    std::optional<Time> ends_at;  // Parts that still run then.
  };

  void NumbersAreAbove(std::uint64_t number);
  Part* Find(const RunId& run_id, const std::string& name, std::uint64_t number);
  void TakePart(const PoolOffer& offer, Time now);
  void TakeEnded(const std::string& name, const EndedPart& ended);
  void LookAtDaemons(Time now);
  // False: it is to be forgotten.
  bool LookAtRun(Run& run, Time now) const;
  // Where no run is there.
  static bool TakesRuns(const Daemon& daemon);
  bool IsFree(const std::string& name, const Daemon& daemon) const;
  std::vector<std::string> FreeFor(const Run& run) const;
  // All that it can have; false: not enough.
  bool Give(Run& run);
  void PlaceRuns();
  std::vector<Run*> InOrder();
  static std::size_t Living(const Run& run);
  void Remember(const Run& run);
  std::string WaitsFor(const Run& run, std::size_t place) const;
  std::string StateOf(const std::string& name, const Daemon& daemon) const;

  std::uint64_t next_;
  Time recovers_until_;
  bool recovers_ = true;
  Time judges_at_;
  bool judges_ = false;
  std::map<std::string, Daemon> daemons_;
  std::map<RunId, Run> runs_;
  std::vector<RunId> begun_;
  std::deque<PoolQueued> ended_;  // Detached runs, whose ends no launch has heard.
};

}  // namespace ddprun

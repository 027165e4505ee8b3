// The newest claim to the server's part, kept by the nodes of a fixed list instead of a directory:
// what one node of the list, a witness, answers, and what a round of answers means.
//
// Three or more nodes are listed. A claim is made when a majority of the list backs it, so of two
// claims of one number only one is made, and its holder keeps it by moving its counter at a
// majority. Who reaches no majority reads nothing, so it takes nothing over, and moves nothing, so
// it steps down (succession.h, which decides all of that as if this were a directory). A witness
// remembers in its memory alone: one that has just started knows of nothing, and is no part of a
// majority until two leases have passed, by when a holder has moved its counter there or has
// stepped down; with --fence-after until that time is over too, by when the workers of a claim that
// it may have forgotten have been killed. Only when every node of the list has just started nobody
// can hold a claim, and the first one need not wait.
//
//   | asked to          | the witness                                                           |
//   |-------------------|-----------------------------------------------------------------------|
//   | look              | tells the newest claim it knows                                       |
//   | back a claim      | accepts one of a higher number, unless it has just started, or the    |
//   |                   | claim it knows is open and has moved within a lease; and adds to it   |
//   |                   | how runs ended. Of the same number only where the one that it knows   |
//   |                   | was backed two leases ago, and never moved: its release was lost      |
//   | move a counter    | accepts it unless it knows of a later term; a claim that it did not   |
//   |                   | know has been made all the same, since only holders move              |
//   | close a claim     | the same, unless it knows another one that has moved within a lease   |
//   | release a claim   | forgets one that was never moved, and when it was backed: its maker   |
//   |                   | found no majority                                                     |
//
// So a candidate's claim is made a lease after the holder's last move at the earliest, and two by
// the rule that its counter must have stood still; kThirdsToLetGoOfList keep the holder below that.
//
// Pure: no I/O, no clock, no threads.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/result.h"
#include "common/time.h"
#include "rendezvous/core/succession/state.h"

namespace ddprun {

// A lease majority of fewer could not outlive the loss of one.
inline constexpr std::size_t kLeastWitnesses = 3;
inline constexpr std::size_t kMostWitnesses = 15;

enum class WitnessVerb { kLook, kBack, kMove, kRelease };

struct WitnessRequest {
  WitnessVerb verb = WitnessVerb::kLook;
  Claim claim;                 // But of kLook.
  bool everybody_new = false;  // Of kBack: every witness has just said that it knows of nothing.
  Duration lease{0};           // As the one who asks knows it.
  std::uint64_t list = 0;      // Digest of the list: all must have the same.
  bool operator==(const WitnessRequest&) const = default;
};

struct WitnessAnswer {
  bool fresh = false;  // Has just started: may have forgotten a claim.
  bool accepted = false;
  std::optional<Claim> newest;  // Known after the request.
  bool operator==(const WitnessAnswer&) const = default;
};

class Witness {
 public:
  // `fence_after`: of this node's run; 0: workers of a forgotten claim are nobody's concern.
  explicit Witness(Time started, Duration fence_after = Duration{0})
      : started_(started), fence_after_(fence_after) {}

  WitnessAnswer Answer(const WitnessRequest& request, Time now);

 private:
  bool JustStarted(const WitnessRequest& request, Time now) const;
  bool Back(const WitnessRequest& request, Time now);
  bool Move(const WitnessRequest& request, Time now);

  const Time started_;
  const Duration fence_after_;
  std::optional<Claim> newest_;
  std::optional<Claim> before_;  // What newest_ replaced, as long as it was not moved.
  Time moved_;                   // newest_ was made or moved then,
  Time moved_before_;            // and before_ then.
};

// One request to every witness, and what came back.
class Ballot {
 public:
  Ballot(std::size_t listed, const WitnessRequest& request) : listed_(listed), request_(request) {}

  void Add(std::size_t witness, const WitnessAnswer& answer);

  // Whether more answers can change nothing.
  bool Decided() const;

  // ---- The meaning of what has come so far ----
  // kUnavailable: too few answers, or too few that know. kRefused: two claims of one number,
  // neither made yet.
  Result<std::optional<Claim>> Newest() const;
  // Nobody knows anything, because everybody has just started.
  bool EverybodyNew() const;
  // Of kBack, with what the witnesses have added. kRefused: somebody else was first.
  Result<Claim> Made() const;
  // Of kMove. True: somebody holds a later claim.
  Result<bool> Moved() const;
  std::size_t Accepted() const;
  // Witnesses that keep a claim which can never be made: others hold the majority.
  std::vector<std::pair<std::size_t, Claim>> Strays() const;

 private:
  struct Entry {
    std::size_t witness = 0;
    WitnessAnswer answer;
  };
  std::size_t Majority() const { return listed_ / 2 + 1; }
  std::optional<Claim> KnownToMajority() const;
  bool Disagree() const;  // Of whose claim is the newest.
  Error TooFew(const std::string& what, std::size_t have) const;

  const std::size_t listed_;
  const WitnessRequest request_;
  std::vector<Entry> entries_;
};

}  // namespace ddprun

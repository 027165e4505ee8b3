// Machines that take the server's part over from one another: the real succession core, and claims
// in a simulated directory or with the real witnesses of a list; a network and clocks that
// misbehave on order.
//
// Decides nothing about who serves. What must never happen is checked here: two that serve side by
// side, a number or a term given twice, a takeover because of a blip; after healing not one server
// that all follow.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/core/succession.h"
#include "rendezvous/core/witness.h"
#include "tests/sim/agenda.h"

namespace ddprun::sim {

// Rules of succession.h, each switched off from outside.
struct SuccessionMutation {
  bool no_standstill = false;     // Who misses the server does not watch the counter.
  bool no_silence = false;        // A still counter is enough, though the server answers.
  bool count_slow_reads = false;  // A read counts from its end.
  bool keep_serving = false;      // A holder that cannot write goes on.
  bool no_exclusion = false;      // A number can be made twice.
  bool forget_terms = false;      // A new reign's term is its clock's alone.
  bool no_forgiveness = false;    // What it missed while it stood still counts as silence.
  // Of a list, each rule of witness.h.
  bool no_majority = false;  // One that backs a claim is enough to make it.
  bool no_memory = false;    // A witness that has just started counts as one that knows.
};

// What kind of trouble a history has.
struct Trouble {
  bool blips_only = false;  // Nothing lasts as long as a lease.
  bool old_reads = false;   // Reads show what was long ago; the network is well.
};

// Where a machine serves, if it does.
Endpoint PlaceOf(std::size_t index);

class SuccessionWorld {
 public:
  // `listed`: claims are kept by a list of three or five, else in a directory.
  SuccessionWorld(std::uint64_t seed, const SuccessionMutation& mutation, bool listed,
                  bool verbose);

  // Trouble for a minute, then none, then one server must be left. In words what was broken.
  std::optional<std::string> Play();
  std::size_t claims() const { return directory_.size(); }
  std::uint64_t hash() const { return hash_; }

 private:
  struct Machine {
    std::size_t index = 0;
    SuccessionState state;
    SuccessionConfig config;
    std::uint64_t life = 0;  // What belongs to an earlier process is void.
    bool up = false;
    bool paused = false;
    bool link = true;
    bool directory = true;  // False: what is asked of it hangs.
    std::vector<std::function<void()>> hanging;
    std::deque<std::function<void()>> inbox;   // While it stands still.
    std::optional<Time> pool_free;             // Its one pool thread.
    std::optional<Witness> witness;            // Of one that is on the list.
    std::deque<std::function<void()>> rounds;  // That wait for the one under way.
    bool asking = false;
    bool everybody_new = false;
    std::optional<Endpoint> target;  // Whom its agent speaks to; itself: it serves.
    Term term;                       // The agent's: the highest heard.
    std::int64_t clock = 0;          // Of its wall, beside the true one.
    std::uint64_t timer = 0;
  };
  struct Snapshot {
    Time when;
    std::optional<Claim> newest;
  };

  void Start(Machine& machine);
  void Stop(Machine& machine);
  void Resume(Machine& machine);
  void Feed(Machine& machine, SuccessionEvent event);
  void Spoil(Machine& machine, SuccessionEvent& event);
  void CarryOut(Machine& machine, const SuccessionEffect& effect);
  void Arm(Machine& machine);
  // On its pool thread: `work` when the directory takes it, then `done` on its loop.
  void OnPool(Machine& machine, std::function<void()> work, std::function<void()> done);
  void OnLoop(Machine& machine, std::uint64_t life, std::function<void()> what);
  void Read(Machine& machine);
  void Take(Machine& machine, const TakeClaim& take);
  void Move(Machine& machine, const Claim& claim, bool answers);
  void Poll(Machine& machine, std::uint64_t life);
  // Of a list: one round after the other, as on the one pool thread.
  using Counted = std::function<void(const Ballot&)>;
  void AskList(Machine& machine, const WitnessRequest& request, Counted counted);
  void BeginRound(Machine& machine, const WitnessRequest& request, const Counted& counted);
  void SendTo(Machine& from, Machine& to, const WitnessRequest& request,
              const std::function<void(const WitnessAnswer&)>& answered);
  void ReadList(Machine& machine);
  void TakeOnList(Machine& machine, const Claim& claim);
  void MoveOnList(Machine& machine, const Claim& claim, bool answers);
  void Note(const Machine& machine, const Claim& claim);
  void Note();
  void TroubleSoon(Time end);
  bool Reaches(const Machine& from, const Machine& to) const;
  void Heal();
  void Watch();
  bool Settled() const;
  void Break(std::string text);
  void Tell(const Machine& machine, const std::string& text);

  Agenda agenda_;
  Random random_;
  SuccessionMutation mutation_;
  Trouble trouble_;
  bool verbose_ = false;
  std::vector<Machine> machines_;
  std::set<std::pair<std::size_t, std::size_t>> cuts_;  // One way, between two.
  std::size_t listed_ = 0;  // The first so many machines; 0: there is a directory.
  std::map<std::uint64_t, Claim> directory_;
  std::vector<Snapshot> past_;  // Of the newest claim.
  std::set<Term> terms_;        // That somebody reigned under.
  int overlaps_ = 0;            // Looks in a row that found two servers.
  std::optional<std::string> broken_;
  std::uint64_t hash_ = 0;
};

}  // namespace ddprun::sim

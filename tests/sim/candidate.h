// The part of a machine's process that may carry the server: the real succession core and its
// driver's duties, with claims in a simulated run directory or with the real witnesses of a list.
//
// Decides nothing about who serves. A server that stands alone on its machine is one without an
// agent beside it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "rendezvous/core/succession.h"
#include "rendezvous/core/witness.h"
#include "tests/sim/agenda.h"
#include "tests/sim/server.h"

namespace ddprun::sim {

class Machine;
class Simulation;

// Where a machine serves, if it does.
Endpoint PlaceOf(std::uint32_t index);

// The claims in a directory that all machines share, and what has become of it over time.
class RunDirectory {
 public:
  explicit RunDirectory(Time now) { Note(now); }

  // False: the number is taken.
  bool Make(const Claim& claim, bool exclusive, Time now);
  // True: there is a newer one.
  bool Move(const Claim& claim, Time now);
  // As it was then.
  std::optional<Claim> NewestAt(Time when) const;
  // When a claim of this term was last made or moved.
  Time MovedAt(Term term) const { return moved_.at(term); }

 private:
  struct Snapshot {
    Time when;
    std::optional<Claim> newest;
  };
  void Note(Time now);

  std::map<std::uint64_t, Claim> claims_;
  std::map<Term, Time> moved_;
  std::vector<Snapshot> past_;
};

class Candidate {
 public:
  Candidate(Simulation& simulation, std::uint32_t index, Server& server);

  // ---- The process ----
  void Start();
  void Kill();
  void Pause();
  void Resume();
  // It serves on while somebody needs it.
  void AgentEnded(int exit_code);
  void SetDirectory(bool reachable);  // What is asked of it hangs meanwhile.

  void Heard(const SyncReply& reply);

  bool up() const { return up_; }
  bool paused() const { return paused_; }
  bool serves() const { return up_ && state_.phase == SuccessionPhase::kServing; }
  const std::optional<Claim>& newest() const { return state_.newest; }
  Server& server() { return server_; }

 private:
  using Counted = std::function<void(const Ballot&)>;

  void Feed(SuccessionEvent event);
  void Spoil(SuccessionEvent& event);
  void CarryOut(const SuccessionEffect& effect);
  void Arm();
  void OnLoop(std::uint64_t life, std::function<void()> what);
  void EndWhenUnneeded();
  void LetGo(const StepDown& down);
  // The last thing that a process does.
  void GiveUp();
  void Reign(const TakeClaim& take, const Claim& claim);
  void Tell(const std::string& text);

  // ---- A directory ----
  // On the pool thread: `work` when the directory takes it, then `done` on the loop.
  void OnPool(std::function<void()> work, std::function<void()> done);
  void Read();
  void Take(const TakeClaim& take);
  void Move(const Claim& claim, bool answers);

  // ---- A list ----
  // One round after the other, as on the one pool thread.
  void AskList(const WitnessRequest& request, Counted counted);
  void BeginRound(const WitnessRequest& request, const Counted& counted);
  void SendTo(Candidate& to, const WitnessRequest& request,
              const std::function<void(const WitnessAnswer&)>& answered);
  void ReadList();
  void TakeOnList(const TakeClaim& take, const Claim& claim);
  void MoveOnList(const Claim& claim, bool answers);

  Simulation& simulation_;
  const std::uint32_t index_;
  Server& server_;
  Machine& machine_;
  SuccessionState state_;
  SuccessionConfig config_;
  std::uint64_t life_ = 0;  // What belongs to an earlier process is void.
  bool up_ = false;
  bool paused_ = false;
  bool agent_ended_ = false;
  bool directory_ = true;
  std::vector<std::function<void()>> hanging_;
  std::deque<std::function<void()>> inbox_;  // While it stands still.
  std::optional<Time> pool_free_;            // Its one pool thread.
  std::optional<Witness> witness_;           // Of one that is on the list.
  std::deque<std::function<void()>> rounds_;
  bool asking_ = false;
  bool everybody_new_ = false;
  std::int64_t clock_ = 0;  // Of its wall, beside the true one.
  std::uint64_t timer_ = 0;
};

}  // namespace ddprun::sim

// The rendezvous server of a simulation: the real coordinator core, its driver's duties, and a
// journal on a disk that may be slow.
//
// A call is parked while its directive equals the echoed one, answered unchanged after the poll
// period counted from the beat it returned, refused when a newer one of the same membership has
// overtaken it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "rendezvous/core/coordinator.h"

namespace ddprun::sim {

class Simulation;

class Server {
 public:
  // nullopt: refused.
  using Answer = std::function<void(const std::optional<SyncReply>&)>;

  // `host`: the index of the machine that carries it; none: it stands elsewhere, and is up.
  Server(Simulation& simulation, std::optional<std::uint32_t> host);
  const std::optional<std::uint32_t>& host() const { return host_; }

  // ---- One of several, on a machine ----
  // A reign of its own begins; `successor`: after another one's.
  void Reign(Term term, bool successor);
  // Forgets everything; what is parked is refused.
  void StepDown();
  void ClaimIsGood(Time until);
  void OnLaterTerm(std::function<void(Term)> callback) { on_later_term_ = std::move(callback); }

  // A call has arrived, or its connection has closed. `life` is the server's when it was sent: a
  // connection ends with the process that it led to.
  void OnCall(const NodeReport& report, std::uint64_t life, Answer answer);
  void OnClosed(const NodeKey& key, std::uint64_t sequence, std::uint64_t life);

  // The process stands still; what arrives is found afterwards, before the clock is looked at.
  void Pause();
  void Resume();

  // SIGKILL, and a new process at the same endpoint.
  void Crash();
  void Start();
  // Its journal is gone when it starts again.
  void LoseJournal();
  bool up() const { return up_; }
  // Who served before it may have left it nodes that it has not heard of yet.
  bool Stays() const;
  std::uint64_t life() const { return life_; }  // Odd while it is up.
  // Of all lives together.
  std::uint64_t worlds() const { return worlds_ + state_.worlds_formed; }

  const CoordinatorState& state() const { return state_; }
  const CoordinatorConfig& config() const { return config_; }

 private:
  struct Parked {
    std::uint64_t sequence = 0;
    std::optional<Directive> echo;
    Time answer_by;
    Answer answer;
  };

  void Accept(NodeReport report, Answer answer);
  void Close(const NodeKey& key, std::uint64_t sequence);
  void Feed(const CoordinatorEvent& event);
  void BreakLossRules(Time now);
  void AnswerWhatChanged();
  void Keep(const Persist& persist);
  bool IsTo(std::uint64_t life) const;
  void OnKept(std::uint64_t life, const Persist& persist);
  void CheckClaim(Time now) const;
  void CheckRecovered(Phase before) const;
  void Arm();
  void OnTimer(std::uint64_t token);
  Duration PollPeriod() const;

  Simulation& simulation_;
  const std::optional<std::uint32_t> host_;
  const std::string name_;
  std::function<void(Term)> on_later_term_;  // None: this server reigns after the later one.
  bool succeeds_ = false;
  std::optional<Time> stays_until_;
  std::optional<Time> claim_good_;
  CoordinatorConfig config_;
  CoordinatorState state_;
  std::map<NodeKey, Parked> parked_;
  std::map<NodeKey, std::uint64_t> arrivals_;  // Only where old reports are believed.
  NodeKey reporter_;  // Of the last report: its own directive may change freely.
  std::uint64_t answered_edition_ = 0;
  bool paused_ = false;
  std::deque<std::function<void()>> inbox_;
  std::uint64_t timer_ = 0;
  bool up_ = true;
  std::uint64_t life_ = 1;
  std::uint64_t worlds_ = 0;
  std::optional<RunRecord> disk_;
  Term highest_term_;            // On disk, or as a clock that never goes back gives it.
  std::deque<Persist> writing_;  // Not known to be on disk yet.
};

}  // namespace ddprun::sim

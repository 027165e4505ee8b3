// The rendezvous server of a simulation: the real coordinator core, and its driver's duties.
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

  explicit Server(Simulation& simulation);

  // A call has arrived, or its connection has closed.
  void OnCall(const NodeReport& report, Answer answer);
  void OnClosed(const NodeKey& key, std::uint64_t sequence);

  // The process stands still; what arrives is found afterwards, before the clock is looked at.
  void Pause();
  void Resume();

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
  void AnswerWhatChanged();
  void Arm();
  void OnTimer(std::uint64_t token);
  Duration PollPeriod() const;

  Simulation& simulation_;
  CoordinatorConfig config_;
  CoordinatorState state_;
  std::map<NodeKey, Parked> parked_;
  std::map<NodeKey, std::uint64_t> arrivals_;  // Only where old reports are believed.
  NodeKey reporter_;  // Of the last report: its own directive may change freely.
  std::uint64_t answered_edition_ = 0;
  bool paused_ = false;
  std::deque<std::function<void()>> inbox_;
  std::uint64_t timer_ = 0;
};

}  // namespace ddprun::sim

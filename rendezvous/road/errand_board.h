// Keeps the errands that operators, or the server itself, have given to nodes, the pieces that came
// back, and what is still to be told to nodes and operators. This folder's README has the table.
//
// Pure: no clock, no calls, no I/O. Keeps one piece per errand and node, and never looks into it.
// Walks all nodes only on a tick, and only while an errand exists.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/result.h"
#include "common/time.h"
#include "rendezvous/messages/errand.h"

namespace ddprun {

// For all runs of one server.
class ErrandBoard {
 public:
  // `first`: errands get numbers after this one, so that those of two servers differ.
  explicit ErrandBoard(std::uint64_t first) : last_errand_(first) {}

  static constexpr Duration kNoRoad{5'000};       // For a node without a call.
  static constexpr Duration kCallerGone{10'000};  // For an operator without a call.
  static constexpr Duration kOfOwn{60'000};       // For the server's own errands.

  using Place = std::pair<RunId, NodeId>;

  // ---- Nodes ----
  // A call of a membership of the run. Its piece is taken if it is the next one of an errand that
  // is waited for.
  void OnRoadCall(const RoadCall& call, Time now);
  // The newest call of this membership has ended.
  void OnRoadClosed(const RoadName& name, Time now);
  // The node's whole list, if it differs from what its open call knows. Then the call is answered,
  // so it is no longer open.
  std::optional<RoadReply> ReplyTo(const Place& place, std::uint64_t edition, Time now);

  // ---- Its owner ----
  // An errand of the server itself, for these members. Their pieces are taken and dropped, and the
  // errand is over after kOfOwn.
  void Send(const RunId& run_id, const ErrandWish& wish, const std::vector<NodeId>& members,
            Time now);

  // ---- Operators ----
  // kRefused: there are too many errands, or too much memory is used. kNotFound: it is not a first
  // call, and its errand is not known. `members`: the nodes of a first call.
  Result<void> OnAsk(const Asking& asking, const std::vector<NodeId>& members, Time now);
  void OnAskGone(std::uint64_t ask);
  bool asked() const;  // Whether an operator has an errand.
  bool Knows(std::uint64_t ask) const { return asks_.contains(ask); }
  // Pieces that were not told yet, if there are any or it is time for an answer. With the last one
  // the errand is forgotten.
  std::optional<AskReply> AnswerTo(std::uint64_t ask, Time now);

  // For time alone: refuses errands of nodes without a call, forgets operators without one.
  void OnTime(Time now);
  std::optional<Time> NextWake() const { return look_; }

  // Nodes whose list, or whose operator's answer, may have changed since the last call of this.
  std::set<Place> TakeChanged() { return std::exchange(changed_, {}); }

  void ForgetRun(const RunId& run_id);

 private:
  // The second call of a node.
  struct Way {
    Incarnation incarnation;
    bool open = false;
    Time seen;  // When it was last open.
    std::uint64_t edition = 1;
    std::map<std::uint64_t, std::uint64_t> errands;  // By errand id: its ask.
  };
  struct Given {
    std::uint64_t id = 0;
    Incarnation incarnation;  // The membership that knows of it; 0: none yet.
    std::uint64_t taken = 0;
    std::optional<ErrandPiece> piece;
    bool ready = false;  // Its piece was not told to the operator yet.
    bool over = false;   // `piece` is the last one.
    Time since;
  };
  struct Ask {
    RunId run_id;
    ErrandWish wish;
    std::uint32_t piece_bytes = 0;
    std::map<NodeId, Given> given;
    std::deque<NodeId> ready;  // Nodes with a piece that was not told yet.
    std::size_t left = 0;      // Nodes whose errand is not over, or whose end was not told.
    std::uint64_t call = 0;
    bool open = false;  // A call of its operator is parked.
    bool told_who = false;
    bool own = false;  // The server's own errand: no operator waits.
    Time heard;
    Time answer_by;
  };

  std::size_t AsksOf(const RunId& run_id, bool own) const;
  Result<void> MayBegin(const RunId& run_id, std::size_t nodes) const;
  Ask& Begin(const Asking& asking, const std::vector<NodeId>& nodes, Time now);
  void Take(Ask& ask, const TakenPiece& taken);
  void Put(Ask& ask, const NodeId& node, Given& given, ErrandPiece piece);
  void End(Ask& ask, const NodeId& node, Given& given);
  void Refuse(Ask& ask, const NodeId& node, Given& given, const std::string& why);
  void Drop(std::uint64_t number);
  void Arm(Time now);
  void Change(const Place& place, Way& way);
  bool HasRoad(const Ask& ask, const NodeId& node, const Given& given, Time now) const;

  std::map<Place, Way> ways_;
  std::map<std::uint64_t, Ask> asks_;
  std::uint64_t last_errand_;
  std::uint64_t last_edition_ = 1;  // Never used twice, since a node's Way may be made again.
  std::optional<Time> look_;        // Next look for nodes and operators that have gone.
  std::set<Place> changed_;
};

}  // namespace ddprun

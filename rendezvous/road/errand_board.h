// Which errands operators, or the server itself, have given to which nodes, what came back, and
// what is to be told to whom: the table is in this folder's README.
//
// Pure: no clock, no calls, no I/O. Keeps one piece per errand and node, and looks at none. Never
// walks all nodes for an event but a tick, and that only while something is asked.
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

// Of one server, all of its runs.
class ErrandBoard {
 public:
  // `first`: their numbers come after this one, so that those of two servers differ.
  explicit ErrandBoard(std::uint64_t first) : last_errand_(first) {}

  static constexpr Duration kNoRoad{5'000};       // A node without a call.
  static constexpr Duration kCallerGone{10'000};  // An operator without one.
  static constexpr Duration kOfOwn{60'000};

  using Place = std::pair<RunId, NodeId>;

  // ---- Nodes ----
  // A call of a membership that is the run's. Its piece is taken if it is the one that is waited
  // for.
  void OnRoadCall(const RoadCall& call, Time now);
  // The newest one of this membership is open no more.
  void OnRoadClosed(const RoadName& name, Time now);
  // Whether the node's list differs from what its open call knows; then all of it, and the call is
  // open no more.
  std::optional<RoadReply> ReplyTo(const Place& place, std::uint64_t edition, Time now);

  // ---- Its owner ----
  // Of so many members, by nobody who waits: what they send is taken and dropped, and the errand is
  // over after kOfOwn.
  void Send(const RunId& run_id, const ErrandWish& wish, const std::vector<NodeId>& members,
            Time now);

  // ---- Operators ----
  // kRefused: too many, or too much; kNotFound: it is no first call, and not known. `members`: whom
  // a first one concerns.
  Result<void> OnAsk(const Asking& asking, const std::vector<NodeId>& members, Time now);
  void OnAskGone(std::uint64_t ask);
  bool asked() const;  // By an operator.
  bool Knows(std::uint64_t ask) const { return asks_.contains(ask); }
  // What is not told yet, if there is anything or it is time for an answer. With the last of it all
  // is forgotten.
  std::optional<AskReply> AnswerTo(std::uint64_t ask, Time now);

  // Time alone: nodes without a call; operators without one are forgotten.
  void OnTime(Time now);
  std::optional<Time> NextWake() const { return look_; }

  // Whose list or whose answer may have changed since the last call of this.
  std::set<Place> TakeChanged() { return std::exchange(changed_, {}); }

  void ForgetRun(const RunId& run_id);

 private:
  // A node's second call.
  struct Way {
    Incarnation incarnation;
    bool open = false;
    Time seen;  // When it last was.
    std::uint64_t edition = 1;
    std::map<std::uint64_t, std::uint64_t> errands;  // Their asks, by id.
  };
  struct Given {
    std::uint64_t id = 0;
    Incarnation incarnation;  // Of who was given it; 0: nobody yet.
    std::uint64_t taken = 0;
    std::optional<ErrandPiece> piece;
    bool ready = false;  // Its piece was not told.
    bool over = false;   // After `piece`.
    Time since;
  };
  struct Ask {
    RunId run_id;
    ErrandWish wish;
    std::uint32_t piece_bytes = 0;
    std::map<NodeId, Given> given;
    std::deque<NodeId> ready;  // Have a piece that was not told.
    std::size_t left = 0;      // Not over, or that was not told.
    std::uint64_t call = 0;
    bool open = false;  // A call of its operator waits: who waits is not gone.
    bool told_who = false;
    bool own = false;  // Nobody waits.
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
  std::uint64_t last_edition_ = 1;  // Never used twice: a way may go, and come again.
  std::optional<Time> look_;        // At who has gone; none: nobody asks.
  std::set<Place> changed_;
};

}  // namespace ddprun

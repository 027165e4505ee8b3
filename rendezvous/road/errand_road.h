// Parks the second calls of nodes and the calls of operators who ask something of them, and answers
// them as the board says.
//
// Lives on the loop. Decides nothing: who may ask, and whose node it is, is said by its owner.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/loop.h"
#include "rendezvous/road/errand_board.h"
#include "rendezvous/transport.h"

namespace ddprun {

class ErrandRoad {
 public:
  // `first`: ErrandBoard's. `is_member`: whether it is a membership of that run that has reported.
  ErrandRoad(Loop& loop, std::uint64_t first, std::function<bool(const RoadName&)> is_member);

  void OnRoad(const RoadCall& call, std::shared_ptr<PendingRoad> pending);
  // Of somebody who may. `members`: of its run, those that it concerns.
  void OnAsk(const Asking& asking, const std::vector<NodeId>& members,
             std::shared_ptr<PendingAsk> pending);
  // To these of its nodes, by its owner: nobody hears what comes of it.
  void Send(const RunId& run_id, const ErrandWish& wish, const std::vector<NodeId>& members);
  // A call's client is gone.
  void OnGone(const void* key);

  // Whether an operator has asked, and was not told all of it.
  bool asked() const { return board_.asked(); }

  void ForgetRun(const RunId& run_id);
  // Refuses all that is parked.
  void Close();

 private:
  struct ParkedRoad {
    RoadName name;
    std::uint64_t edition = 0;
    std::shared_ptr<PendingRoad> call;
  };
  void AnswerAll();
  void AnswerRoad(const ErrandBoard::Place& place);
  void AnswerAsk(std::uint64_t ask);
  void Arm();

  Loop& loop_;
  const std::uint64_t first_;
  const std::function<bool(const RoadName&)> is_member_;
  ErrandBoard board_;
  std::map<ErrandBoard::Place, ParkedRoad> roads_;
  std::map<std::uint64_t, std::shared_ptr<PendingAsk>> asks_;
  std::map<const void*, ErrandBoard::Place> road_keys_;
  std::map<const void*, std::uint64_t> ask_keys_;
  LoopTimer timer_;
};

}  // namespace ddprun

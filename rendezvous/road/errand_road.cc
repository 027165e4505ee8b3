#include "rendezvous/road/errand_road.h"

#include "common/check.h"

namespace ddprun {

ErrandRoad::ErrandRoad(Loop& loop, std::uint64_t first,
                       std::function<bool(const RoadName&)> is_member)
    : loop_(loop), first_(first), is_member_(std::move(is_member)), board_(first), timer_(loop) {}

void ErrandRoad::OnRoad(const RoadCall& call, std::shared_ptr<PendingRoad> pending) {
  const RoadName name{call.run_id, call.node, call.incarnation};
  if (!is_member_(name)) {
    pending->Refuse({ErrorKind::kUnavailable, "node " + call.node + " has not reported here yet"});
    return;
  }
  board_.OnRoadCall(call, loop_.Now());
  const ErrandBoard::Place place{call.run_id, call.node};
  road_keys_[pending->key()] = place;
  ParkedRoad& parked = roads_[place];
  if (parked.call) {
    road_keys_.erase(parked.call->key());
  }
  // With a piece it is answered at once: what it brought must not be lost with it when the next one
  // takes its place. An older one is refused: superseded.
  parked = {name, call.piece ? 0 : call.edition, std::move(pending)};
  AnswerRoad(place);
  AnswerAll();
}

void ErrandRoad::OnAsk(const Asking& asking, const std::vector<NodeId>& members,
                       std::shared_ptr<PendingAsk> pending) {
  if (const Result<void> taken = board_.OnAsk(asking, members, loop_.Now()); !taken) {
    pending->Refuse(taken.error());
    return;
  }
  std::shared_ptr<PendingAsk>& parked = asks_[asking.ask];
  if (parked) {
    ask_keys_.erase(parked->key());
  }
  ask_keys_[pending->key()] = asking.ask;
  parked = std::move(pending);
  AnswerAsk(asking.ask);
  AnswerAll();
}

void ErrandRoad::Send(const RunId& run_id, const ErrandWish& wish,
                      const std::vector<NodeId>& members) {
  board_.Send(run_id, wish, members, loop_.Now());
  AnswerAll();
}

void ErrandRoad::OnGone(const void* key) {
  if (const auto road = road_keys_.find(key); road != road_keys_.end()) {
    const auto parked = roads_.find(road->second);
    board_.OnRoadClosed(parked->second.name, loop_.Now());
    roads_.erase(parked);
    road_keys_.erase(road);
  } else if (const auto ask = ask_keys_.find(key); ask != ask_keys_.end()) {
    board_.OnAskGone(ask->second);
    asks_.erase(ask->second);
    ask_keys_.erase(ask);
  }
  AnswerAll();
}

// What changed on one side is told on the other, until nothing has.
void ErrandRoad::AnswerAll() {
  for (auto changed = board_.TakeChanged(); !changed.empty(); changed = board_.TakeChanged()) {
    for (const ErrandBoard::Place& place : changed) {
      AnswerRoad(place);
    }
    for (const auto& [ask, parked] : std::map(asks_)) {
      AnswerAsk(ask);
    }
  }
  Arm();
}

void ErrandRoad::AnswerRoad(const ErrandBoard::Place& place) {
  const auto parked = roads_.find(place);
  if (parked == roads_.end()) {
    return;
  }
  if (const auto reply = board_.ReplyTo(place, parked->second.edition, loop_.Now())) {
    const std::shared_ptr<PendingRoad> call = std::move(parked->second.call);
    road_keys_.erase(call->key());
    roads_.erase(parked);
    call->Answer(*reply);
  }
}

void ErrandRoad::AnswerAsk(std::uint64_t ask) {
  const auto parked = asks_.find(ask);
  if (parked == asks_.end()) {
    return;
  }
  CHECK(board_.Knows(ask));  // Whose call waits is not forgotten.
  if (const auto reply = board_.AnswerTo(ask, loop_.Now())) {
    const std::shared_ptr<PendingAsk> call = std::move(parked->second);
    ask_keys_.erase(call->key());
    asks_.erase(parked);
    call->Answer(*reply);
  }
}

void ErrandRoad::Arm() {
  timer_.ArmAt(board_.NextWake(), [this] {
    board_.OnTime(loop_.Now());
    for (const auto& [ask, parked] : std::map(asks_)) {
      AnswerAsk(ask);
    }
    AnswerAll();
  });
}

void ErrandRoad::ForgetRun(const RunId& run_id) {
  board_.ForgetRun(run_id);
  std::erase_if(road_keys_, [&](const auto& entry) { return entry.second.first == run_id; });
  std::erase_if(roads_, [&](const auto& entry) { return entry.first.first == run_id; });
  std::erase_if(ask_keys_, [&](const auto& entry) { return !board_.Knows(entry.second); });
  std::erase_if(asks_, [&](const auto& entry) { return !board_.Knows(entry.first); });
  Arm();
}

void ErrandRoad::Close() {
  timer_.Cancel();
  road_keys_.clear();
  ask_keys_.clear();
  board_ = ErrandBoard(first_);
  roads_.clear();
  asks_.clear();
}

}  // namespace ddprun

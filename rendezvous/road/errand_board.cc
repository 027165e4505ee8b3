#include "rendezvous/road/errand_board.h"

#include <algorithm>
#include <limits>

namespace ddprun {
namespace {

// The memory of one piece per node.
std::size_t BytesOfPieces(std::uint32_t piece_bytes, std::size_t nodes) {
  return std::size_t{piece_bytes} * nodes;
}

constexpr Duration kLook{1'000};
constexpr Duration kLeastWait{20};

std::uint32_t PieceBytes(std::size_t nodes) {
  return static_cast<std::uint32_t>(std::clamp(
      kMostPieceBytesOfAsk / std::max<std::size_t>(nodes, 1), kLeastPieceBytes, kMaxPieceBytes));
}

}  // namespace

// ---- Nodes ----
void ErrandBoard::OnRoadCall(const RoadCall& call, Time now) {
  const Place place{call.run_id, call.node};
  Way& way = ways_[place];
  if (way.incarnation != call.incarnation) {  // Its errands belonged to another membership.
    for (const auto& [id, number] : std::map(way.errands)) {
      Ask& ask = asks_.at(number);
      Given& given = ask.given.at(call.node);
      if (given.incarnation.value != 0) {
        Refuse(ask, call.node, given, "it was lost, and has come again");
      }
    }
    way.incarnation = call.incarnation;
  }
  way.open = true;
  way.seen = now;
  if (call.edition == way.edition) {
    for (const auto& [id, number] : way.errands) {
      asks_.at(number).given.at(call.node).incarnation = call.incarnation;
    }
  }
  const auto found = call.piece ? way.errands.find(call.piece->errand) : way.errands.end();
  if (found == way.errands.end()) {
    return;  // No piece, or one of an errand that is unknown or was given up.
  }
  Ask& ask = asks_.at(found->second);
  Given& given = ask.given.at(call.node);
  if (given.over || given.piece || call.piece->number != given.taken + 1) {
    return;  // A repeated piece.
  }
  if (call.piece->bytes.size() > ask.piece_bytes) {
    Refuse(ask, call.node, given, "it sent a piece that is larger than was asked for");
    return;
  }
  Put(ask, call.node, given, *call.piece);
}

void ErrandBoard::OnRoadClosed(const RoadName& name, Time now) {
  const auto found = ways_.find({name.run_id, name.node});
  if (found != ways_.end() && found->second.incarnation == name.incarnation) {
    found->second.open = false;
    found->second.seen = now;
    if (found->second.errands.empty()) {
      ways_.erase(found);
    }
  }
}

std::optional<RoadReply> ErrandBoard::ReplyTo(const Place& place, std::uint64_t edition, Time now) {
  const auto found = ways_.find(place);
  if (found == ways_.end() || found->second.edition == edition) {
    return std::nullopt;
  }
  found->second.open = false;
  found->second.seen = now;
  RoadReply reply{found->second.edition, {}};
  for (const auto& [id, number] : found->second.errands) {
    const Ask& ask = asks_.at(number);
    reply.errands.push_back({id, ask.wish, ask.piece_bytes, ask.given.at(place.second).taken});
  }
  return reply;
}

void ErrandBoard::Change(const Place& place, Way& way) {
  way.edition = ++last_edition_;
  changed_.insert(place);
}

// ---- Operators ----
std::size_t ErrandBoard::AsksOf(const RunId& run_id, bool own) const {
  return static_cast<std::size_t>(std::ranges::count_if(asks_, [&](const auto& ask) {
    return ask.second.run_id == run_id && ask.second.own == own;
  }));
}

// The server's own errands keep no pieces, so they use no memory here.
Result<void> ErrandBoard::MayBegin(const RunId& run_id, std::size_t nodes) const {
  const std::size_t of_run = AsksOf(run_id, /*own=*/false);
  if (of_run >= kMostAsks) {
    return Error{ErrorKind::kRefused,
                 std::to_string(of_run) +
                     " others are being answered for this run: try again when one has ended"};
  }
  std::size_t bytes = BytesOfPieces(PieceBytes(nodes), nodes);
  for (const auto& [number, other] : asks_) {
    bytes += other.own ? 0 : BytesOfPieces(other.piece_bytes, other.given.size());
  }
  if (bytes > kMostPieceBytes) {
    return Error{ErrorKind::kRefused,
                 "too much is being asked of this server's nodes: name some with --node, or try "
                 "again when others have been answered"};
  }
  return {};
}

ErrandBoard::Ask& ErrandBoard::Begin(const Asking& asking, const std::vector<NodeId>& nodes,
                                     Time now) {
  Ask& ask = asks_[asking.ask];
  ask.run_id = asking.run_id;
  ask.wish = asking.wish;
  ask.piece_bytes = PieceBytes(nodes.size());
  for (const NodeId& node : nodes) {
    const auto [given, fresh] = ask.given.try_emplace(node);
    if (!fresh) {
      continue;
    }
    given->second.id = ++last_errand_;
    given->second.since = now;
    const Place place{asking.run_id, node};
    Way& way = ways_[place];
    way.errands.emplace(given->second.id, asking.ask);
    Change(place, way);
  }
  ask.left = ask.given.size();
  return ask;
}

void ErrandBoard::Send(const RunId& run_id, const ErrandWish& wish,
                       const std::vector<NodeId>& members, Time now) {
  if (AsksOf(run_id, /*own=*/true) >= kMostAsks) {
    return;  // So many at once would only come from worlds that start and end too fast.
  }
  Asking asking{.run_id = run_id, .token = {}, .wish = wish, .nodes = {}, .taken = {}};
  for (asking.ask = std::numeric_limits<std::uint64_t>::max(); Knows(asking.ask);) {
    --asking.ask;
  }
  Ask& ask = Begin(asking, members, now);
  ask.own = true;
  ask.heard = now;
  ask.answer_by = now + kOfOwn;
  Arm(now);
}

bool ErrandBoard::asked() const {
  return !std::ranges::all_of(asks_, [](const auto& ask) { return ask.second.own; });
}

Result<void> ErrandBoard::OnAsk(const Asking& asking, const std::vector<NodeId>& members,
                                Time now) {
  if (asking.call == 1 && !asks_.contains(asking.ask)) {
    RETURN_IF_ERROR(MayBegin(asking.run_id, members.size()));
    Begin(asking, members, now);
  }
  const auto found = asks_.find(asking.ask);
  if (found == asks_.end() || found->second.own) {
    return Error{ErrorKind::kNotFound,
                 "this server does not know what was asked: nobody wanted to know more for " +
                     FormatDuration(kCallerGone) + ", or another server has taken its place"};
  }
  Ask& ask = found->second;
  if (asking.call <= ask.call) {
    return Error{ErrorKind::kRefused, "a newer call of the same operator has come"};
  }
  ask.call = asking.call;
  ask.open = true;
  ask.heard = now;
  ask.answer_by = now + asking.wait;
  for (const TakenPiece& taken : asking.taken) {
    Take(ask, taken);
  }
  Arm(now);
  return {};
}

void ErrandBoard::Arm(Time now) {
  look_.reset();
  for (const auto& [number, ask] : asks_) {
    const Time next = std::min<Time>(now + kLook, std::max(ask.answer_by, now + kLeastWait));
    look_ = look_ ? std::min(*look_, next) : next;
  }
}

void ErrandBoard::Take(Ask& ask, const TakenPiece& taken) {
  const auto found = ask.given.find(taken.node);
  if (found == ask.given.end()) {
    return;
  }
  Given& given = found->second;
  if (!given.piece || given.ready || given.piece->number != taken.number) {
    return;
  }
  given.piece.reset();
  given.taken = taken.number;
  const Place place{ask.run_id, taken.node};
  Change(place, ways_.at(place));
}

void ErrandBoard::Put(Ask& ask, const NodeId& node, Given& given, ErrandPiece piece) {
  const bool last = piece.last;
  if (ask.own) {
    given.taken = piece.number;
    ask.left -= last ? 1 : 0;
    const Place place{ask.run_id, node};
    Change(place, ways_.at(place));
  } else {
    given.piece = std::move(piece);
    if (!std::exchange(given.ready, true)) {
      ask.ready.push_back(node);
    }
  }
  if (last) {
    End(ask, node, given);
  }
  changed_.insert({ask.run_id, node});
}

void ErrandBoard::End(Ask& ask, const NodeId& node, Given& given) {
  given.over = true;
  const Place place{ask.run_id, node};
  Way& way = ways_.at(place);
  way.errands.erase(given.id);
  Change(place, way);
}

// Ends an errand with a reason. A piece that was sent becomes the last one, with the reason; if it
// was told already it is told again.
void ErrandBoard::Refuse(Ask& ask, const NodeId& node, Given& given, const std::string& why) {
  if (given.over) {
    return;
  }
  ErrandPiece last{given.id, given.taken + 1, "", true, why};
  if (given.piece) {
    last.bytes = std::move(given.piece->bytes);
  }
  Put(ask, node, given, std::move(last));
}

void ErrandBoard::Drop(std::uint64_t number) {
  const auto found = asks_.find(number);
  if (found == asks_.end()) {
    return;
  }
  for (const auto& [node, given] : found->second.given) {
    const Place place{found->second.run_id, node};
    if (const auto way = ways_.find(place); way != ways_.end()) {
      if (way->second.errands.erase(given.id) > 0) {
        Change(place, way->second);
      }
      if (!way->second.open && way->second.errands.empty()) {
        ways_.erase(way);
      }
    }
  }
  asks_.erase(found);
}

void ErrandBoard::OnAskGone(std::uint64_t ask) {
  Drop(ask);
}

std::optional<AskReply> ErrandBoard::AnswerTo(std::uint64_t number, Time now) {
  Ask& ask = asks_.at(number);
  if (ask.ready.empty() && ask.told_who && ask.left > 0 && now < ask.answer_by) {
    return std::nullopt;
  }
  ask.open = false;
  AskReply reply;
  if (!std::exchange(ask.told_who, true)) {
    for (const auto& [node, given] : ask.given) {
      reply.asked.push_back(node);
    }
  }
  std::size_t bytes = 0;
  while (!ask.ready.empty() && bytes < kMostReplyBytes) {
    const NodeId node = ask.ready.front();
    ask.ready.pop_front();
    Given& given = ask.given.at(node);
    given.ready = false;
    bytes += given.piece->bytes.size() + given.piece->refusal.size() + node.size();
    reply.pieces.push_back({node, *given.piece});
    if (given.over) {
      given.piece.reset();
      --ask.left;
    }
  }
  ask.heard = now;
  if (ask.left == 0) {
    Drop(number);
  }
  return reply;
}

// ---- Time ----
bool ErrandBoard::HasRoad(const Ask& ask, const NodeId& node, const Given& given, Time now) const {
  const auto way = ways_.find({ask.run_id, node});
  return way != ways_.end() &&
         (way->second.open || now < std::max(way->second.seen, given.since) + kNoRoad);
}

void ErrandBoard::OnTime(Time now) {
  std::vector<std::uint64_t> gone;
  for (auto& [number, ask] : asks_) {
    if (ask.own ? ask.left == 0 || now >= ask.answer_by
                : !ask.open && now >= ask.heard + kCallerGone) {
      gone.push_back(number);
      continue;
    }
    for (auto& [node, given] : ask.given) {
      if (!given.over && !HasRoad(ask, node, given, now)) {
        Refuse(ask, node, given,
               given.incarnation.value == 0
                   ? "it has no road to its server: it is cut off, or its ddprun is an older one"
                   : "it is cut off, or gone");
      }
    }
  }
  for (const std::uint64_t number : gone) {
    Drop(number);
  }
  Arm(now);
}

void ErrandBoard::ForgetRun(const RunId& run_id) {
  std::erase_if(asks_, [&](const auto& ask) { return ask.second.run_id == run_id; });
  std::erase_if(ways_, [&](const auto& way) { return way.first.first == run_id; });
}

}  // namespace ddprun

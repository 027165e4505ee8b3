#include "rendezvous/requests/operator_requests.h"

#include <algorithm>
#include <optional>

namespace ddprun {
namespace {

std::uint32_t PieceBytes(std::size_t nodes) {
  return static_cast<std::uint32_t>(std::clamp(
      kMostPieceBytesOfAsk / std::max<std::size_t>(nodes, 1), kLeastPieceBytes, kMaxPieceBytes));
}

}  // namespace

OperatorRequests::OperatorRequests(Loop& loop, std::function<bool(const Membership&)> is_member)
    : loop_(loop), is_member_(std::move(is_member)), timer_(loop) {}

// ---- Nodes ----
void OperatorRequests::OnNode(const Membership& name, std::unique_ptr<NodeStream> stream) {
  if (!is_member_(name)) {
    stream->End({ErrorKind::kUnavailable, "node " + name.node + " has not reported here yet"});
    return;
  }
  const Place place{name.run_id, name.node};
  OnNodeEnded(place, "it was lost and has joined again");
  nodes_[place] = std::move(stream);
  nodes_.at(place)->Listen([this, place](AnswerPiece piece) { OnPiece(place, std::move(piece)); },
                           [this, place] { OnNodeEnded(place, "it is cut off or has ended"); });
  for (auto& [number, request] : requests_) {
    if (request.run_id != name.run_id) {
      continue;
    }
    const bool joins = request.grows && !request.parts.contains(name.node) &&
                       BytesOfOperators() + request.piece_bytes <= kMostPieceBytes;
    request.nodes += joins ? 1 : 0;
    if (joins || request.parts.contains(name.node)) {
      AskForPiece(number, request, name.node, request.parts[name.node]);
    }
  }
}

// Requests that the node does not know of yet wait for its next stream.
void OperatorRequests::OnNodeEnded(const Place& place, const std::string& why) {
  nodes_.erase(place);
  std::vector<std::uint64_t> ended;
  for (const auto& [number, request] : requests_) {
    const auto part = request.parts.find(place.second);
    if (request.run_id == place.first && part != request.parts.end() && part->second.begun) {
      ended.push_back(number);
    }
  }
  for (const std::uint64_t number : ended) {
    Refuse(number, place.second, why);
  }
}

void OperatorRequests::AskForPiece(std::uint64_t number, Request& request, const NodeId& node,
                                   Part& part) {
  part.owed = true;
  const auto found = nodes_.find({request.run_id, node});
  if (found != nodes_.end()) {
    part.begun = true;
    found->second->Send({number, false, request.spec, request.piece_bytes});
  }
}

void OperatorRequests::OnPiece(const Place& place, AnswerPiece piece) {
  const std::uint64_t number = piece.request;
  const auto found = requests_.find(number);
  if (found == requests_.end() || found->second.run_id != place.first ||
      !found->second.parts.contains(place.second)) {
    return;  // It was given up while the piece was under way.
  }
  Request& request = found->second;
  Part& part = request.parts.at(place.second);
  if (!part.owed || piece.bytes.size() > request.piece_bytes) {
    TellOver(place, number);
    Refuse(number, place.second, "it sent an answer that is too large or was not requested");
    return;
  }
  part.owed = false;
  if (piece.last) {
    TellOver(place, number);
    EndPart(number, place.second, std::move(piece));
  } else if (request.stream) {
    request.stream->Send({{}, place.second, std::move(piece)});
  } else {
    AskForPiece(number, request, place.second, part);
  }
}

void OperatorRequests::TellOver(const Place& place, std::uint64_t number) {
  if (const auto found = nodes_.find(place); found != nodes_.end()) {
    found->second->Send({.request = number, .over = true});
  }
}

// ---- Operators ----
std::size_t OperatorRequests::OwnOf(const RunId& run_id) const {
  return static_cast<std::size_t>(std::ranges::count_if(requests_, [&](const auto& request) {
    return request.second.run_id == run_id && request.second.stream == nullptr;
  }));
}

// Requests that follow a run's output may stay for its whole life, and take no place of others.
std::size_t OperatorRequests::AskedOf(const RunId& run_id, bool follow) const {
  return static_cast<std::size_t>(std::ranges::count_if(requests_, [&](const auto& request) {
    return request.second.run_id == run_id && request.second.stream &&
           request.second.spec.follow == follow;
  }));
}

// A verb that is stopped keeps its stream open and asks for nothing. Its place is needed now.
void OperatorRequests::MakeRoom(const RunId& run_id, bool follow) {
  if (AskedOf(run_id, follow) < kMostAsks) {
    return;
  }
  const auto idle = [&](const Request& request) {
    return request.run_id == run_id && request.stream && loop_.Now() >= request.heard + kUnread &&
           std::ranges::any_of(request.parts, [](const auto& part) { return !part.second.owed; });
  };
  const auto longest = std::ranges::min_element(requests_, {}, [&](const auto& request) {
    return idle(request.second) ? request.second.heard : Time::max();
  });
  if (longest != requests_.end() && idle(longest->second)) {
    const std::uint64_t number = longest->first;
    longest->second.stream->End(
        Error{ErrorKind::kRefused, "its answers were not read while other requests waited"});
    Drop(number);
  }
}

std::size_t OperatorRequests::BytesOfOperators() const {
  std::size_t bytes = 0;
  for (const auto& [number, other] : requests_) {
    bytes += other.stream ? std::size_t{other.piece_bytes} * other.nodes : 0;
  }
  return bytes;
}

// The server's own requests have no reader, so no piece of theirs waits.
Result<void> OperatorRequests::MayBegin(const RunId& run_id, bool follow, std::size_t nodes) const {
  const std::size_t of_run = AskedOf(run_id, follow);
  if (of_run >= kMostAsks) {
    return Error{
        ErrorKind::kRefused,
        std::to_string(of_run) +
            " other requests for this run are being answered. Try again when one has ended"};
  }
  if (BytesOfOperators() + std::size_t{PieceBytes(nodes)} * nodes > kMostPieceBytes) {
    return Error{ErrorKind::kRefused,
                 "the server is answering too many requests. Select some nodes with --node, or try "
                 "again later"};
  }
  return {};
}

std::uint64_t OperatorRequests::Begin(Request request, const std::vector<NodeId>& members) {
  const std::uint64_t number = ++last_request_;
  for (const NodeId& node : members) {
    request.parts.try_emplace(node);
  }
  request.nodes = request.parts.size();
  request.piece_bytes = PieceBytes(request.nodes);
  request.since = request.heard = loop_.Now();
  Request& begun = requests_.emplace(number, std::move(request)).first->second;
  for (auto& [node, part] : begun.parts) {
    AskForPiece(number, begun, node, part);
  }
  Arm();
  return number;
}

void OperatorRequests::OnOperator(const RunId& run_id, const RequestSpec& spec,
                                  const std::vector<NodeId>& members,
                                  std::unique_ptr<OperatorStream> stream, bool grows) {
  MakeRoom(run_id, spec.follow);
  if (const Result<void> may = MayBegin(run_id, spec.follow, members.size()); !may) {
    stream->End(may.error());
    return;
  }
  stream->Send({members, {}, {}});
  OperatorStream& opened = *stream;
  const std::uint64_t number = Begin(
      {.run_id = run_id, .spec = spec, .parts = {}, .stream = std::move(stream), .grows = grows},
      members);
  opened.Listen([this, number](const NodeId& node) { OnNext(number, node); },
                [this, number] { Drop(number); });
}

void OperatorRequests::OnNext(std::uint64_t number, const NodeId& node) {
  Request& request = requests_.at(number);
  request.heard = loop_.Now();
  const auto part = request.parts.find(node);
  if (part != request.parts.end() && !part->second.owed) {
    AskForPiece(number, request, node, part->second);
  }
}

void OperatorRequests::Send(const RunId& run_id, const RequestSpec& spec,
                            const std::vector<NodeId>& members) {
  if (OwnOf(run_id) < kMostAsks) {  // More come only from worlds that end at once.
    Begin({.run_id = run_id, .spec = spec, .parts = {}, .stream = nullptr}, members);
  }
}

bool OperatorRequests::asked() const {
  return std::ranges::any_of(requests_,
                             [](const auto& request) { return request.second.stream != nullptr; });
}

// ---- The end of a request ----
void OperatorRequests::EndPart(std::uint64_t number, const NodeId& node, AnswerPiece piece) {
  Request& request = requests_.at(number);
  request.parts.erase(node);
  if (request.stream) {
    request.stream->Send({{}, node, std::move(piece)});
  } else if (request.parts.empty()) {
    Drop(number);
  }
}

void OperatorRequests::Refuse(std::uint64_t number, const NodeId& node, const std::string& why) {
  EndPart(number, node, {number, "", true, why});
}

// Its nodes end what they do for it.
void OperatorRequests::Drop(std::uint64_t number) {
  const auto dropped = requests_.extract(number);
  for (const auto& [node, part] : dropped.mapped().parts) {
    if (part.begun) {
      TellOver({dropped.mapped().run_id, node}, number);
    }
  }
}

void OperatorRequests::OnTime() {
  std::vector<std::pair<std::uint64_t, NodeId>> silent;
  for (const auto& [number, request] : requests_) {
    for (const auto& [node, part] : request.parts) {
      if ((!part.begun && loop_.Now() >= request.since + kNoStream)) {
        silent.emplace_back(number, node);
      }
    }
  }
  for (const auto& [number, node] : silent) {
    Refuse(number, node, "it has no stream to its server: it is cut off");
  }
  std::vector<std::uint64_t> late;
  for (const auto& [number, request] : requests_) {
    if (!request.stream && loop_.Now() >= request.since + kOfOwn) {
      late.push_back(number);
    }
  }
  for (const std::uint64_t number : late) {
    Drop(number);
  }
  Arm();
}

void OperatorRequests::Arm() {
  std::optional<Time> next;
  for (const auto& [number, request] : requests_) {
    const bool waits =
        std::ranges::any_of(request.parts, [](const auto& part) { return !part.second.begun; });
    if (waits || !request.stream) {
      const Time at = request.since + (waits ? kNoStream : kOfOwn);
      next = next ? std::min(*next, at) : at;
    }
  }
  timer_.ArmAt(next, [this] { OnTime(); });
}

void OperatorRequests::ForgetRun(const RunId& run_id) {
  std::erase_if(requests_, [&](const auto& request) { return request.second.run_id == run_id; });
  std::erase_if(nodes_, [&](const auto& node) { return node.first.first == run_id; });
  Arm();
}

void OperatorRequests::Close() {
  timer_.Cancel();
  requests_.clear();
  nodes_.clear();
}

}  // namespace ddprun

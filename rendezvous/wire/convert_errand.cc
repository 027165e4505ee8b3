#include <string_view>

#include "rendezvous/wire/convert.h"
#include "rendezvous/wire/wire_parts.h"

namespace ddprun {
namespace {

ErrandWish Read(const v1::ErrandWish& wire, Reader& in) {
  ErrandWish wish;
  wish.kind = in.Enum("wish.kind", kErrandKind, wire.kind());
  if (wire.ranks_size() > static_cast<int>(kMostRankSpans)) {
    in.Refuse("wish.ranks", "are too many");
    return wish;
  }
  for (const v1::RankSpan& span : wire.ranks()) {
    wish.ranks.push_back(
        {span.first(), in.Number("wish.ranks.last", span.last(), span.first(), kMaxWorld)});
  }
  if (wire.has_back_ms()) {
    wish.back = in.Duration("wish.back_ms", wire.back_ms());
  }
  wish.follow = wire.follow();
  return wish;
}

void Write(const ErrandWish& wish, v1::ErrandWish* wire) {
  wire->set_kind(
      std::ranges::find(kErrandKind, wish.kind, &std::pair<ErrandKind, v1::ErrandKind>::first)
          ->second);
  for (const RankSpan& span : wish.ranks) {
    v1::RankSpan* const added = wire->add_ranks();
    added->set_first(span.first);
    added->set_last(span.last);
  }
  if (wish.back) {
    wire->set_back_ms(wish.back->count());
  }
  wire->set_follow(wish.follow);
}

ErrandPiece Read(const v1::ErrandPiece& wire, Reader& in) {
  ErrandPiece piece;
  piece.errand = in.Count("piece.errand", wire.errand());
  piece.number = in.Count("piece.number", wire.number());
  piece.bytes = in.Text("piece.bytes", wire.bytes(), kMaxPieceBytes);
  piece.last = wire.last();
  piece.refusal = in.Text("piece.refusal", wire.refusal(), kMaxRefusal);
  return piece;
}

void Write(const ErrandPiece& piece, v1::ErrandPiece* wire) {
  wire->set_errand(piece.errand);
  wire->set_number(piece.number);
  wire->set_bytes(piece.bytes);
  wire->set_last(piece.last);
  wire->set_refusal(piece.refusal.substr(0, kMaxRefusal));
}

}  // namespace

Result<RoadCall> RoadCallFromProto(const v1::RoadRequest& wire) {
  Reader in(kServersAhead);
  RoadCall call;
  call.run_id = in.Name("run_id", wire.run_id());
  call.node = in.Name("node", wire.node());
  call.incarnation = {wire.incarnation()};
  if (call.incarnation.value == 0) {
    in.Refuse("incarnation", "is missing");
  }
  call.edition = in.Count("edition", wire.edition());
  if (wire.has_piece()) {
    call.piece = Read(wire.piece(), in);
  }
  if (!in.ok()) {
    return in.error();
  }
  return call;
}

void ToProto(const RoadCall& call, v1::RoadRequest* wire) {
  wire->set_run_id(call.run_id);
  wire->set_node(call.node);
  wire->set_incarnation(call.incarnation.value);
  wire->set_edition(call.edition);
  if (call.piece) {
    Write(*call.piece, wire->mutable_piece());
  }
}

Result<RoadReply> RoadReplyFromProto(const v1::RoadReply& wire) {
  Reader in(kServersAhead);
  RoadReply reply;
  reply.edition = in.Count("edition", wire.edition());
  if (wire.errands_size() > static_cast<int>(kMostAsks)) {
    in.Refuse("errands", "are too many");
  } else {
    for (const v1::Errand& errand : wire.errands()) {
      reply.errands.push_back({in.Count("errands.id", errand.id()), Read(errand.wish(), in),
                               in.Number("errands.piece_bytes", errand.piece_bytes(),
                                         static_cast<std::uint32_t>(kLeastPieceBytes),
                                         static_cast<std::uint32_t>(kMaxPieceBytes)),
                               in.Count("errands.taken", errand.taken())});
    }
  }
  if (!in.ok()) {
    return in.error();
  }
  return reply;
}

void ToProto(const RoadReply& reply, v1::RoadReply* wire) {
  wire->set_edition(reply.edition);
  for (const Errand& errand : reply.errands) {
    v1::Errand* const added = wire->add_errands();
    added->set_id(errand.id);
    Write(errand.wish, added->mutable_wish());
    added->set_piece_bytes(errand.piece_bytes);
    added->set_taken(errand.taken);
  }
}

Result<Asking> AskingFromProto(const v1::AskRequest& wire) {
  Reader in(kServersAhead);
  Asking asking;
  asking.run_id = in.OptionalName("run_id", wire.run_id());
  asking.ask = wire.ask();
  asking.call = in.Number<std::uint64_t>("call", wire.call(), 1, kMaxCount);
  asking.token = in.Text("token", wire.token(), kMaxTokenBytes);
  asking.wish = Read(wire.wish(), in);
  if (wire.nodes_size() > static_cast<int>(kMostAskedNodes) ||
      wire.taken_size() > static_cast<int>(kMaxNodes)) {
    in.Refuse("nodes or taken", "are too many");
    return in.error();
  }
  for (const std::string& node : wire.nodes()) {
    asking.nodes.push_back(in.Name("nodes", node));
  }
  for (const v1::TakenPiece& taken : wire.taken()) {
    asking.taken.push_back(
        {in.Name("taken.node", taken.node()), in.Count("taken.number", taken.number())});
  }
  asking.wait =
      Duration(in.Number<std::int64_t>("wait_ms", wire.wait_ms(), 0, kLongestWait.count()));
  if (!in.ok()) {
    return in.error();
  }
  return asking;
}

void ToProto(const Asking& asking, v1::AskRequest* wire) {
  wire->set_run_id(asking.run_id);
  wire->set_ask(asking.ask);
  wire->set_call(asking.call);
  wire->set_token(asking.token);
  Write(asking.wish, wire->mutable_wish());
  for (const NodeId& node : asking.nodes) {
    wire->add_nodes(node);
  }
  for (const TakenPiece& taken : asking.taken) {
    v1::TakenPiece* const added = wire->add_taken();
    added->set_node(taken.node);
    added->set_number(taken.number);
  }
  wire->set_wait_ms(asking.wait.count());
}

Result<AskReply> AskReplyFromProto(const v1::AskReply& wire) {
  Reader in(kServersAhead);
  AskReply reply;
  if (wire.asked_size() > static_cast<int>(kMaxNodes) ||
      wire.pieces_size() > static_cast<int>(kMaxNodes)) {
    in.Refuse("asked or pieces", "are too many");
    return in.error();
  }
  for (const std::string& node : wire.asked()) {
    reply.asked.push_back(in.Name("asked", node));
  }
  for (const v1::AnsweredPiece& answered : wire.pieces()) {
    reply.pieces.push_back({in.Name("pieces.node", answered.node()), Read(answered.piece(), in)});
  }
  if (!in.ok()) {
    return in.error();
  }
  return reply;
}

void ToProto(const AskReply& reply, v1::AskReply* wire) {
  for (const NodeId& node : reply.asked) {
    wire->add_asked(node);
  }
  for (const AnsweredPiece& answered : reply.pieces) {
    v1::AnsweredPiece* const added = wire->add_pieces();
    added->set_node(answered.node);
    Write(answered.piece, added->mutable_piece());
  }
}

}  // namespace ddprun

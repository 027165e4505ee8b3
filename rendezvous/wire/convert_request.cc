#include <string_view>

#include "rendezvous/wire/convert.h"
#include "rendezvous/wire/wire_parts.h"

namespace ddprun {
namespace {

RequestSpec Read(const v1::RequestSpec& wire, Reader& in) {
  RequestSpec spec;
  spec.kind = in.Enum("spec.kind", kRequestKind, wire.kind());
  if (wire.ranks_size() > static_cast<int>(kMostRankSpans)) {
    in.Refuse("spec.ranks", "are too many");
    return spec;
  }
  for (const v1::RankSpan& span : wire.ranks()) {
    spec.ranks.push_back(
        {span.first(), in.Number("spec.ranks.last", span.last(), span.first(), kMaxWorld)});
  }
  if (wire.has_back_ms()) {
    spec.back = in.Duration("spec.back_ms", wire.back_ms());
  }
  spec.follow = wire.follow();
  return spec;
}

void Write(const RequestSpec& spec, v1::RequestSpec* wire) {
  wire->set_kind(
      std::ranges::find(kRequestKind, spec.kind, &std::pair<RequestKind, v1::RequestKind>::first)
          ->second);
  for (const RankSpan& span : spec.ranks) {
    v1::RankSpan* const added = wire->add_ranks();
    added->set_first(span.first);
    added->set_last(span.last);
  }
  if (spec.back) {
    wire->set_back_ms(spec.back->count());
  }
  wire->set_follow(spec.follow);
}

}  // namespace

Result<Membership> MembershipFromProto(const v1::NodeMessage& wire) {
  Reader in(kServersAhead);
  Membership self;
  self.run_id = in.Name("run_id", wire.self().run_id());
  self.node = in.Name("node", wire.self().node());
  self.incarnation = {wire.self().incarnation()};
  if (self.incarnation.value == 0) {
    in.Refuse("incarnation", "is missing");
  }
  if (!in.ok()) {
    return in.error();
  }
  return self;
}

void ToProto(const Membership& self, v1::Membership* wire) {
  wire->set_run_id(self.run_id);
  wire->set_node(self.node);
  wire->set_incarnation(self.incarnation.value);
}

namespace {

AnswerPiece Read(const v1::Piece& wire, Reader& in) {
  AnswerPiece piece;
  piece.request = in.Count("piece.request", wire.request());
  piece.bytes = in.Text("piece.bytes", wire.bytes(), kMaxPieceBytes);
  piece.last = wire.last();
  piece.refusal = in.Text("piece.refusal", wire.refusal(), kMaxRefusal);
  return piece;
}

}  // namespace

Result<AnswerPiece> PieceFromProto(const v1::NodeMessage& wire) {
  Reader in(kServersAhead);
  const AnswerPiece piece = Read(wire.piece(), in);
  if (!in.ok()) {
    return in.error();
  }
  return piece;
}

void ToProto(const AnswerPiece& piece, v1::Piece* wire) {
  wire->set_request(piece.request);
  wire->set_bytes(piece.bytes);
  wire->set_last(piece.last);
  wire->set_refusal(piece.refusal.substr(0, kMaxRefusal));
}

Result<NodeCommand> CommandFromProto(const v1::Command& wire) {
  Reader in(kServersAhead);
  NodeCommand command;
  command.request = in.Count("request", wire.request());
  command.over = wire.over();
  if (!command.over) {
    command.spec = Read(wire.spec(), in);
    command.piece_bytes =
        in.Number("piece_bytes", wire.piece_bytes(), static_cast<std::uint32_t>(kLeastPieceBytes),
                  static_cast<std::uint32_t>(kMaxPieceBytes));
  }
  if (!in.ok()) {
    return in.error();
  }
  return command;
}

void ToProto(const NodeCommand& command, v1::Command* wire) {
  wire->set_request(command.request);
  wire->set_over(command.over);
  if (!command.over) {
    Write(command.spec, wire->mutable_spec());
    wire->set_piece_bytes(command.piece_bytes);
  }
}

Result<AskStart> AskStartFromProto(const v1::AskMessage& message) {
  Reader in(kServersAhead);
  const v1::AskStart& wire = message.start();
  AskStart start;
  start.run_id = in.OptionalName("run_id", wire.run_id());
  start.token = in.Text("token", wire.token(), kMaxTokenBytes);
  start.spec = Read(wire.spec(), in);
  if (wire.nodes_size() > static_cast<int>(kMostAskedNodes)) {
    in.Refuse("nodes", "are too many");
    return in.error();
  }
  for (const std::string& node : wire.nodes()) {
    start.nodes.push_back(in.Name("nodes", node));
  }
  if (!in.ok()) {
    return in.error();
  }
  return start;
}

void ToProto(const AskStart& start, v1::AskStart* wire) {
  wire->set_run_id(start.run_id);
  wire->set_token(start.token);
  Write(start.spec, wire->mutable_spec());
  for (const NodeId& node : start.nodes) {
    wire->add_nodes(node);
  }
}

Result<NodeId> NextFromProto(const v1::AskMessage& wire) {
  Reader in(kServersAhead);
  NodeId node = in.Name("next", wire.next());
  if (!in.ok()) {
    return in.error();
  }
  return node;
}

Result<AskReply> AskReplyFromProto(const v1::AskReply& wire) {
  Reader in(kServersAhead);
  AskReply reply;
  if (wire.asked_size() > static_cast<int>(kMaxNodes)) {
    in.Refuse("asked", "are too many");
    return in.error();
  }
  for (const std::string& node : wire.asked()) {
    reply.asked.push_back(in.Name("asked", node));
  }
  reply.node = in.OptionalName("node", wire.node());
  reply.piece = Read(wire.piece(), in);
  if (!in.ok()) {
    return in.error();
  }
  return reply;
}

void ToProto(const AskReply& reply, v1::AskReply* wire) {
  for (const NodeId& node : reply.asked) {
    wire->add_asked(node);
  }
  if (!reply.node.empty()) {
    wire->set_node(reply.node);
    ToProto(reply.piece, wire->mutable_piece());
  }
}

}  // namespace ddprun

#include "rendezvous/wire/convert.h"

#include <string>
#include <type_traits>

#include "rendezvous/wire/wire_messages.h"

namespace ddprun {
namespace {

// For the caller, whose log shows it.
Error OtherProtocol(std::uint32_t said) {
  return {ErrorKind::kInvalid, "the server speaks protocol " + std::to_string(kProtocol) +
                                   ", this node " + std::to_string(said) +
                                   ": run the same ddprun on every node [protocol-differs]"};
}

}  // namespace

template <class Value, class Wire>
Result<Value> FromProtoAt(const Wire& wire, std::int64_t unix_ms) {
  if constexpr (requires { wire.protocol(); }) {
    if (wire.protocol() != kProtocol) {
      return OtherProtocol(wire.protocol());
    }
  }
  Reader in(unix_ms, std::is_same_v<Value, NodeReport> ? kNodesAhead : kServersAhead);
  return ReadFields<Value>(wire, in);
}

template <class Value, class Wire>
Result<Value> FromProto(const Wire& wire) {
  return FromProtoAt<Value>(wire, LatestUnixMilliseconds());
}

template <class Value, class Wire>
void ToProto(const Value& value, Wire* wire) {
  if constexpr (requires { wire->set_protocol(kProtocol); }) {
    wire->set_protocol(kProtocol);
  }
  WriteFields(value, wire);
}

#define BOTH_WAYS(Value, Wire)                          \
  template Result<Value> FromProto<Value>(const Wire&); \
  template void ToProto(const Value&, Wire*);

BOTH_WAYS(NodeReport, v1::SyncRequest)
template Result<NodeReport> FromProtoAt<NodeReport>(const v1::SyncRequest&, std::int64_t);
BOTH_WAYS(SyncReply, v1::SyncReply)
BOTH_WAYS(std::vector<RunStatus>, v1::DescribeReply)
BOTH_WAYS(ControlRequest, v1::ControlRequest)
BOTH_WAYS(NodeCommand, v1::Command)
BOTH_WAYS(AskReply, v1::AskReply)
BOTH_WAYS(PoolReport, v1::PoolReport)
BOTH_WAYS(PoolReply, v1::PoolReply)
BOTH_WAYS(Membership, v1::Membership)
BOTH_WAYS(AskStart, v1::AskStart)
template void ToProto(const AnswerPiece&, v1::Piece*);

void ToProto(const AnswerPiece& piece, v1::NodeMessage* wire) {
  ToProto(piece, wire->mutable_piece());
}

Result<Membership> MembershipFromProto(const v1::NodeMessage& wire) {
  return FromProto<Membership>(wire.self());
}

Result<AnswerPiece> PieceFromProto(const v1::NodeMessage& wire) {
  Reader in(kServersAhead);
  return ReadFields<AnswerPiece>(wire.piece(), in, "piece");
}

Result<AskStart> AskStartFromProto(const v1::AskMessage& wire) {
  return FromProto<AskStart>(wire.start());
}

Result<NodeId> NextFromProto(const v1::AskMessage& wire) {
  Reader in(kServersAhead);
  return in.Taken(in.Name("next", wire.next()));
}

}  // namespace ddprun

// Reports, replies and directives between values and the wire. The border: nothing past it meets a
// protobuf type, and nothing unchecked passes it.
//
// Reading trusts no byte: every enum, length, count and duration is checked, terms and generations
// by this machine's clock (term_bounds.h), and the Error names the field. Writing never makes what
// reading would refuse for its size: text for people and lists are cut to their bounds.
#pragma once

#include <cstdint>

#include "common/result.h"
#include "proto/rendezvous.pb.h"
#include "rendezvous/core/status.h"
#include "rendezvous/messages/messages.h"
#include "rendezvous/messages/pool_messages.h"
#include "rendezvous/transport.h"

namespace ddprun {

// Counts up when old and new nodes would misunderstand each other; a node of another one is
// refused.
inline constexpr std::uint32_t kProtocol = 3;

// For the messages that convert.cc lists.
template <class Value, class Wire>
Result<Value> FromProto(const Wire& wire);
// Where the clock says so.
template <class Value, class Wire>
Result<Value> FromProtoAt(const Wire& wire, std::int64_t unix_ms);
template <class Value, class Wire>
void ToProto(const Value& value, Wire* wire);

// Of the two streams' messages from a client the first one opens the stream.
void ToProto(const AnswerPiece& piece, v1::NodeMessage* wire);
Result<Membership> MembershipFromProto(const v1::NodeMessage& wire);
Result<AnswerPiece> PieceFromProto(const v1::NodeMessage& wire);
Result<AskStart> AskStartFromProto(const v1::AskMessage& wire);
Result<NodeId> NextFromProto(const v1::AskMessage& wire);

}  // namespace ddprun

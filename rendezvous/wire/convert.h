// Reports, replies and directives between values and the wire. The border: nothing past it meets a
// protobuf type, and nothing unchecked passes it.
//
// Reading trusts no byte: every enum, length, count and duration is checked, terms and generations
// by this machine's clock (term_bounds.h), and the Error names the field. Writing never makes what
// reading would refuse for its size: text for people and lists are cut to their bounds.
#pragma once

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

Result<NodeReport> ReportFromProto(const v1::SyncRequest& wire);
// Where the clock says so.
Result<NodeReport> ReportFromProtoAt(const v1::SyncRequest& wire, std::int64_t unix_ms);
Result<SyncReply> ReplyFromProto(const v1::SyncReply& wire);

// Looks from outside and an operator's wishes.
Result<std::vector<RunStatus>> StatusFromProto(const v1::DescribeReply& wire);
Result<ControlRequest> ControlFromProto(const v1::ControlRequest& wire);
void ToProto(const std::vector<RunStatus>& runs, v1::DescribeReply* wire);
void ToProto(const ControlRequest& request, v1::ControlRequest* wire);

// Operators' requests to nodes. Of the two streams' messages from a client the first one opens the
// stream.
Result<Membership> MembershipFromProto(const v1::NodeMessage& wire);
Result<AnswerPiece> PieceFromProto(const v1::NodeMessage& wire);
Result<NodeCommand> CommandFromProto(const v1::Command& wire);
Result<AskStart> AskStartFromProto(const v1::AskMessage& message);
Result<NodeId> NextFromProto(const v1::AskMessage& wire);
Result<AskReply> AskReplyFromProto(const v1::AskReply& wire);
void ToProto(const Membership& self, v1::Membership* wire);
void ToProto(const AnswerPiece& piece, v1::Piece* wire);
void ToProto(const NodeCommand& command, v1::Command* wire);
void ToProto(const AskStart& start, v1::AskStart* wire);
void ToProto(const AskReply& reply, v1::AskReply* wire);

// A pool's streams.
Result<PoolReport> PoolReportFromProto(const v1::PoolReport& wire);
Result<PoolReply> PoolReplyFromProto(const v1::PoolReply& wire);
void ToProto(const PoolReport& report, v1::PoolReport* wire);
void ToProto(const PoolReply& reply, v1::PoolReply* wire);

void ToProto(const NodeReport& report, v1::SyncRequest* wire);
void ToProto(const SyncReply& reply, v1::SyncReply* wire);

}  // namespace ddprun

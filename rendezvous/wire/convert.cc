#include "rendezvous/wire/convert.h"

#include <string>

#include "rendezvous/wire/wire_messages.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxRuns = 1000;

// For the one who asks, whose log shows it.
Error OtherProtocol(std::uint32_t said) {
  return {ErrorKind::kInvalid, "the server speaks protocol " + std::to_string(kProtocol) +
                                   ", this node " + std::to_string(said) +
                                   ": run the same ddprun on every node [protocol-differs]"};
}

template <class Value>
Result<Value> Read(const auto& wire, std::string_view of = "") {
  Reader in(kServersAhead);
  return ReadFields<Value>(wire, in, of);
}

}  // namespace

// ---- A node's calls ----
Result<NodeReport> ReportFromProto(const v1::SyncRequest& wire) {
  return ReportFromProtoAt(wire, LatestUnixMilliseconds());
}

Result<NodeReport> ReportFromProtoAt(const v1::SyncRequest& wire, std::int64_t unix_ms) {
  if (wire.protocol() != kProtocol) {
    return OtherProtocol(wire.protocol());
  }
  Reader in(unix_ms, kNodesAhead);
  return ReadFields<NodeReport>(wire, in);
}

Result<SyncReply> ReplyFromProto(const v1::SyncReply& wire) {
  return Read<SyncReply>(wire);
}

void ToProto(const NodeReport& report, v1::SyncRequest* wire) {
  wire->set_protocol(kProtocol);
  WriteFields(report, wire);
}

void ToProto(const SyncReply& reply, v1::SyncReply* wire) {
  WriteFields(reply, wire);
}

// ---- Looks from outside, and operators' wishes ----
Result<std::vector<RunStatus>> StatusFromProto(const v1::DescribeReply& wire) {
  Reader in(kServersAhead);
  std::vector<RunStatus> runs;
  FieldReader(wire, in).List(FIELD(runs), runs, kMaxRuns, "");
  return in.Taken(std::move(runs));
}

Result<ControlRequest> ControlFromProto(const v1::ControlRequest& wire) {
  return Read<ControlRequest>(wire);
}

void ToProto(const std::vector<RunStatus>& runs, v1::DescribeReply* wire) {
  for (const RunStatus& run : runs) {
    WriteFields(run, wire->add_runs());
  }
}

void ToProto(const ControlRequest& request, v1::ControlRequest* wire) {
  WriteFields(request, wire);
}

// ---- Operators' requests to nodes ----
Result<Membership> MembershipFromProto(const v1::NodeMessage& wire) {
  return Read<Membership>(wire.self());
}

Result<AnswerPiece> PieceFromProto(const v1::NodeMessage& wire) {
  return Read<AnswerPiece>(wire.piece(), "piece");
}

Result<NodeCommand> CommandFromProto(const v1::Command& wire) {
  return Read<NodeCommand>(wire);
}

Result<AskStart> AskStartFromProto(const v1::AskMessage& message) {
  return Read<AskStart>(message.start());
}

Result<NodeId> NextFromProto(const v1::AskMessage& wire) {
  Reader in(kServersAhead);
  return in.Taken(in.Name("next", wire.next()));
}

Result<AskReply> AskReplyFromProto(const v1::AskReply& wire) {
  return Read<AskReply>(wire);
}

void ToProto(const Membership& self, v1::Membership* wire) {
  WriteFields(self, wire);
}

void ToProto(const AnswerPiece& piece, v1::Piece* wire) {
  WriteFields(piece, wire);
}

void ToProto(const NodeCommand& command, v1::Command* wire) {
  WriteFields(command, wire);
}

void ToProto(const AskStart& start, v1::AskStart* wire) {
  WriteFields(start, wire);
}

void ToProto(const AskReply& reply, v1::AskReply* wire) {
  WriteFields(reply, wire);
}

// ---- A pool ----
Result<PoolReport> PoolReportFromProto(const v1::PoolReport& wire) {
  if (wire.protocol() != kProtocol) {
    return OtherProtocol(wire.protocol());
  }
  PoolReport report;
  Reader in(kServersAhead);
  {
    const FieldReader io(wire, in);
    (void)(io.Choice<PoolOffer>(FIELD(offer), report) || io.Choice<PoolWish>(FIELD(wish), report));
  }
  return in.Taken(std::move(report));
}

Result<PoolReply> PoolReplyFromProto(const v1::PoolReply& wire) {
  PoolReply reply;
  Reader in(kServersAhead);
  {
    const FieldReader io(wire, in);
    io.Check(io.Choice<PoolOrder>(FIELD(order), reply) || io.Choice<PoolView>(FIELD(view), reply) ||
                 io.Choice<PoolStatus>(FIELD(status), reply),
             "kind", "is missing");
  }
  return in.Taken(std::move(reply));
}

void ToProto(const PoolReport& report, v1::PoolReport* wire) {
  wire->set_protocol(kProtocol);
  const FieldWriter io(*wire);
  (void)(io.Choice<PoolOffer>(FIELD(offer), report) || io.Choice<PoolWish>(FIELD(wish), report));
}

void ToProto(const PoolReply& reply, v1::PoolReply* wire) {
  const FieldWriter io(*wire);
  (void)(io.Choice<PoolOrder>(FIELD(order), reply) || io.Choice<PoolView>(FIELD(view), reply) ||
         io.Choice<PoolStatus>(FIELD(status), reply));
}

}  // namespace ddprun

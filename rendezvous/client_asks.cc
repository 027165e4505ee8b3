#include "rendezvous/client_asks.h"

#include <grpcpp/client_context.h>

#include <utility>

#include "common/files.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/control_socket.h"
#include "rendezvous/door/wire_gate.h"
#include "rendezvous/grpc_channel.h"
#include "rendezvous/wire/convert.h"

namespace ddprun {
namespace {

using Stub = v1::Rendezvous::Stub;

// gRPC's monotonic clock: a deadline must not move when somebody sets the wall clock.
gpr_timespec In(Duration duration) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(duration.count(), GPR_TIMESPAN));
}

// A run's own words need no place: the caller has named it by its directory.
Error ErrorAtSocket(const grpc::Status& status, const std::filesystem::path& run_directory,
                    Duration timeout) {
  const std::string run = "the run at '" + run_directory.native() + "' ";
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return {ErrorKind::kInvalid, status.error_message()};
    case grpc::StatusCode::NOT_FOUND:
      return {ErrorKind::kNotFound, status.error_message()};
    case grpc::StatusCode::FAILED_PRECONDITION:
      return {ErrorKind::kRefused, status.error_message()};
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {ErrorKind::kUnavailable, run + "did not answer within " + FormatDuration(timeout)};
    default:
      return {ErrorKind::kUnavailable, run + "ended while it answered"};
  }
}

Result<std::shared_ptr<Stub>> Connect(const ServerAddress& server, Duration timeout) {
  if (server.control_socket.empty()) {
    ASSIGN_OR_RETURN(const std::string target, GrpcTarget(server.endpoint, Lookup::kMayBlock));
    return std::shared_ptr<Stub>(
        v1::Rendezvous::NewStub(OpenChannel(target, server.endpoint.host, server.access)));
  }
  ASSIGN_OR_RETURN(UniqueFd fd, ConnectToControlSocket(server.control_socket, timeout));
  return std::shared_ptr<Stub>(v1::Rendezvous::NewStub(ChannelOver(std::move(fd))));
}

// One call, blocking: `ask` makes it. Its reply, or why there is none.
template <class Reply, class Request>
Result<Reply> AskBy(Stub& stub,
                    grpc::Status (Stub::*ask)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, const ServerAddress& server, Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(In(timeout));
  ShowToken(context, server.access.token);
  Reply reply;
  const grpc::Status status = (stub.*ask)(&context, request, &reply);
  if (status.ok()) {
    return reply;
  }
  return server.control_socket.empty() ? ErrorOf(status, server.endpoint, timeout, server.access)
                                       : ErrorAtSocket(status, server.control_socket, timeout);
}

Error Malformed(const ServerAddress& server, const Error& error) {
  return {ErrorKind::kRefused,
          (server.control_socket.empty() ? "the rendezvous at " + ToString(server.endpoint)
                                         : "the run at " + server.control_socket.native()) +
              " sent a malformed reply: " + error.message};
}

}  // namespace

Result<std::vector<RunStatus>> AskStatus(const ServerAddress& server, const RunId& run_id,
                                         Duration timeout) {
  v1::DescribeRequest request;
  request.set_run_id(run_id);
  ASSIGN_OR_RETURN(const std::shared_ptr<Stub> stub, Connect(server, timeout));
  ASSIGN_OR_RETURN(const v1::DescribeReply reply,
                   AskBy(*stub, &Stub::Describe, request, server, timeout));
  Result<std::vector<RunStatus>> runs = StatusFromProto(reply);
  if (!runs) {
    return Malformed(server, runs.error());
  }
  return runs;
}

Result<std::string> AskControl(const ServerAddress& server, const ControlRequest& request,
                               Duration timeout) {
  v1::ControlRequest wire;
  ToProto(request, &wire);
  ServerAddress shown = server;
  shown.access.token = request.token;
  ASSIGN_OR_RETURN(const std::shared_ptr<Stub> stub, Connect(shown, timeout));
  ASSIGN_OR_RETURN(const v1::ControlReply reply,
                   AskBy(*stub, &Stub::Control, wire, shown, timeout));
  return reply.text();
}

Result<AskingWay> WayToAsk(const ServerAddress& server, Duration timeout) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Stub> stub, Connect(server, timeout));
  return AskingWay([=](const Asking& asking) -> Result<AskReply> {
    v1::AskRequest request;
    ToProto(asking, &request);
    ASSIGN_OR_RETURN(const v1::AskReply reply, AskBy(*stub, &Stub::Ask, request, server, timeout));
    Result<AskReply> read = AskReplyFromProto(reply);
    if (!read) {
      return Malformed(server, read.error());
    }
    return read;
  });
}

}  // namespace ddprun

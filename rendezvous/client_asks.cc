#include "rendezvous/client_asks.h"

#include <grpcpp/client_context.h>

#include <utility>

#include "proto/rendezvous.grpc.pb.h"
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

// One call, blocking: `ask` makes it. Its reply, or why there is none.
template <class Reply, class Request>
Result<Reply> AskBy(Stub& stub,
                    grpc::Status (Stub::*ask)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, const Endpoint& endpoint, Duration timeout,
                    const Access& access) {
  grpc::ClientContext context;
  context.set_deadline(In(timeout));
  ShowToken(context, access.token);
  Reply reply;
  const grpc::Status status = (stub.*ask)(&context, request, &reply);
  if (!status.ok()) {
    return ErrorOf(status, endpoint, timeout, access);
  }
  return reply;
}

// On a connection of its own.
template <class Reply, class Request>
Result<Reply> AskOnce(grpc::Status (Stub::*ask)(grpc::ClientContext*, const Request&, Reply*),
                      const Request& request, const Endpoint& endpoint, Duration timeout,
                      const Access& access) {
  ASSIGN_OR_RETURN(const std::string target, GrpcTarget(endpoint, Lookup::kMayBlock));
  const std::unique_ptr<Stub> stub =
      v1::Rendezvous::NewStub(OpenChannel(target, endpoint.host, access));
  return AskBy(*stub, ask, request, endpoint, timeout, access);
}

}  // namespace

Result<std::vector<RunStatus>> AskStatus(const Endpoint& endpoint, const RunId& run_id,
                                         Duration timeout, const Access& access) {
  v1::DescribeRequest request;
  request.set_run_id(run_id);
  ASSIGN_OR_RETURN(const v1::DescribeReply reply,
                   AskOnce(&Stub::Describe, request, endpoint, timeout, access));
  Result<std::vector<RunStatus>> runs = StatusFromProto(reply);
  if (!runs) {
    return Error{ErrorKind::kRefused, "the rendezvous at " + ToString(endpoint) +
                                          " sent a malformed reply: " + runs.error().message};
  }
  return runs;
}

Result<std::string> AskControl(const Endpoint& endpoint, const ControlRequest& request,
                               Duration timeout, const Tls& tls) {
  v1::ControlRequest wire;
  ToProto(request, &wire);
  ASSIGN_OR_RETURN(const v1::ControlReply reply,
                   AskOnce(&Stub::Control, wire, endpoint, timeout, Access{request.token, tls}));
  return reply.text();
}

Result<AskingWay> WayToAsk(const Endpoint& endpoint, const Access& access, Duration timeout) {
  ASSIGN_OR_RETURN(const std::string target, GrpcTarget(endpoint, Lookup::kMayBlock));
  const std::shared_ptr<Stub> stub =
      v1::Rendezvous::NewStub(OpenChannel(target, endpoint.host, access));
  return AskingWay([=](const Asking& asking) -> Result<AskReply> {
    v1::AskRequest request;
    ToProto(asking, &request);
    ASSIGN_OR_RETURN(const v1::AskReply reply,
                     AskBy(*stub, &Stub::Ask, request, endpoint, timeout, access));
    Result<AskReply> read = AskReplyFromProto(reply);
    if (!read) {
      return Error{ErrorKind::kRefused, "the rendezvous at " + ToString(endpoint) +
                                            " sent a malformed reply: " + read.error().message};
    }
    return read;
  });
}

}  // namespace ddprun

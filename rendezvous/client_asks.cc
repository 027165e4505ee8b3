#include "rendezvous/client_asks.h"

#include <grpcpp/client_context.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "common/files.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/control_socket.h"
#include "rendezvous/grpc_channel.h"
#include "rendezvous/listener/grpc_admission.h"
#include "rendezvous/wire/convert.h"

namespace ddprun {
namespace {

using Stub = v1::Rendezvous::Stub;

// After it a server that answers no ping is gone. A stream has no other time limit.
constexpr Duration kSilence{10'000};

// gRPC's monotonic clock: a deadline must not move when the wall clock is set.
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
    case grpc::StatusCode::UNIMPLEMENTED:
      return {ErrorKind::kRefused, run + "runs another release of ddprun. Use the same release"};
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::UNKNOWN:  // The library's words, such as "Cancelling all calls".
      return {ErrorKind::kUnavailable, run + "stopped answering, or has ended"};
    default:
      return {ErrorKind::kUnavailable,
              run + "stopped answering, or has ended: " + status.error_message()};
  }
}

Error ErrorFrom(const grpc::Status& status, const ServerAddress& server, Duration timeout) {
  return server.control_socket.empty() ? ErrorOf(status, server.endpoint, timeout, server.access)
                                       : ErrorAtSocket(status, server.control_socket, timeout);
}

Result<std::shared_ptr<Stub>> Connect(const ServerAddress& server, Duration timeout) {
  if (server.control_socket.empty()) {
    ASSIGN_OR_RETURN(const std::string target, GrpcTarget(server.endpoint, Lookup::kMayBlock));
    return std::shared_ptr<Stub>(v1::Rendezvous::NewStub(
        OpenChannel(target, server.endpoint.host, server.access, kSilence)));
  }
  ASSIGN_OR_RETURN(UniqueFd fd, ConnectToControlSocket(server.control_socket, timeout));
  return std::shared_ptr<Stub>(v1::Rendezvous::NewStub(ChannelOver(std::move(fd), kSilence)));
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
  if (!status.ok()) {
    return ErrorFrom(status, server, timeout);
  }
  return reply;
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
  Result<std::vector<RunStatus>> runs = FromProto<std::vector<RunStatus>>(reply);
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

// A thread reads, since gRPC's reads have no time limit.
class NodeQuery::State {
 public:
  State(ServerAddress server, std::shared_ptr<Stub> stub, Duration timeout)
      : server_(std::move(server)), stub_(std::move(stub)), timeout_(timeout) {
    ShowToken(context_, server_.access.token);
    stream_ = stub_->AskNodes(&context_);
    reader_ = std::thread([this] { Read(); });
  }
  ~State() {
    {
      const std::lock_guard lock(mutex_);
      closes_ = true;
    }
    context_.TryCancel();
    changed_.notify_all();
    reader_.join();
  }

  void Write(const v1::AskMessage& message) {
    const std::lock_guard lock(mutex_);
    if (!ended_) {
      stream_->Write(message);
    }
  }

  Result<std::optional<AskReply>> Next(Duration wait) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, wait, [this] { return ended_ || !come_.empty(); });
    if (come_.empty()) {
      return ended_ ? Result<std::optional<AskReply>>(*ended_) : std::optional<AskReply>();
    }
    Result<AskReply> reply = FromProto<AskReply>(come_.front());
    come_.pop_front();
    changed_.notify_all();
    if (!reply) {
      return Malformed(server_, reply.error());
    }
    return std::optional(*std::move(reply));
  }

 private:
  // A server sends a piece of each node at most, unasked; one that sends more waits.
  void Read() {
    v1::AskReply reply;
    while (stream_->Read(&reply)) {
      std::unique_lock lock(mutex_);
      come_.push_back(std::move(reply));
      changed_.notify_all();
      changed_.wait(lock, [this] { return closes_ || come_.size() <= kMaxNodes; });
    }
    const std::lock_guard lock(mutex_);
    const grpc::Status status = stream_->Finish();
    ended_ = status.ok() ? Error{ErrorKind::kUnavailable, "the server ended the answer early"}
                         : ErrorFrom(status, server_, timeout_);
    changed_.notify_all();
  }

  const ServerAddress server_;
  const std::shared_ptr<Stub> stub_;
  const Duration timeout_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AskMessage, v1::AskReply>> stream_;
  std::thread reader_;
  std::mutex mutex_;  // Of what follows, and of writing.
  std::condition_variable changed_;
  std::deque<v1::AskReply> come_;
  std::optional<Error> ended_;
  bool closes_ = false;
};

NodeQuery::NodeQuery(std::unique_ptr<State> state) : state_(std::move(state)) {}
NodeQuery::NodeQuery(NodeQuery&& other) noexcept = default;
NodeQuery::~NodeQuery() = default;

Result<NodeQuery> NodeQuery::Open(const ServerAddress& server, const AskStart& start,
                                  Duration timeout) {
  ASSIGN_OR_RETURN(std::shared_ptr<Stub> stub, Connect(server, timeout));
  NodeQuery call(std::make_unique<State>(server, std::move(stub), timeout));
  v1::AskMessage message;
  ToProto(start, message.mutable_start());
  call.state_->Write(message);
  ASSIGN_OR_RETURN(std::optional<AskReply> first, call.state_->Next(timeout));
  if (!first) {
    return ErrorFrom({grpc::StatusCode::DEADLINE_EXCEEDED, ""}, server, timeout);
  }
  call.nodes_ = std::move(first->asked);
  return call;
}

Result<std::optional<AskReply>> NodeQuery::Next(Duration wait) {
  return state_->Next(wait);
}

void NodeQuery::Want(const NodeId& node) {
  v1::AskMessage message;
  message.set_next(node);
  state_->Write(message);
}

}  // namespace ddprun

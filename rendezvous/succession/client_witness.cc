#include "rendezvous/succession/client_witness.h"

#include <grpcpp/client_context.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "common/loop.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/door/wire_gate.h"
#include "rendezvous/grpc_channel.h"
#include "rendezvous/wire/convert.h"

namespace ddprun {
namespace {

using Stub = v1::Rendezvous::Stub;

gpr_timespec DeadlineIn(Duration duration) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(duration.count(), GPR_TIMESPAN));
}

}  // namespace

// All calls that gRPC has not let go of.
struct GrpcWitnessCalls::Open {
  std::mutex mutex;
  std::condition_variable ended;
  std::set<grpc::ClientContext*> calls;
  std::set<std::size_t> lost;  // Witnesses to connect with anew.
  AskToken ask;
  std::set<std::size_t> asking;
  std::map<std::size_t, std::string> tokens;  // That were told.
};

struct GrpcWitnessCalls::Peer {
  std::string target;          // Once it was looked up.
  std::shared_ptr<Stub> stub;  // None: not connected, or the connection was given up.
};

GrpcWitnessCalls::GrpcWitnessCalls(std::vector<Endpoint> list, Access access, AskToken ask)
    : list_(std::move(list)),
      access_(std::move(access)),
      peers_(list_.size()),
      open_(std::make_shared<Open>()) {
  open_->ask = std::move(ask);
}

GrpcWitnessCalls::~GrpcWitnessCalls() {
  std::unique_lock lock(open_->mutex);
  for (grpc::ClientContext* context : open_->calls) {
    context->TryCancel();
  }
  open_->ended.wait(lock, [this] { return open_->calls.empty(); });
}

// Under the lock.
void GrpcWitnessCalls::Ask(const std::shared_ptr<Open>& open, std::size_t witness,
                           const Endpoint& endpoint) {
  if (!open->ask || !open->asking.insert(witness).second) {
    return;
  }
  const bool started = StartThread([open, witness, endpoint] {
    std::string token = open->ask(endpoint);
    const std::lock_guard lock(open->mutex);
    open->asking.erase(witness);
    if (!token.empty()) {
      open->tokens[witness] = std::move(token);
      open->lost.insert(witness);  // A connection shows one token.
    }
  });
  if (!started) {
    open->asking.erase(witness);
  }
}

void GrpcWitnessCalls::Send(std::size_t witness, const WitnessRequest& request, Duration patience,
                            Done done) {
  struct Call {
    grpc::ClientContext context;
    v1::WitnessRequest request;
    v1::WitnessReply reply;
  };
  Peer& peer = peers_[witness];
  const Endpoint& endpoint = list_[witness];
  if (peer.target.empty()) {
    Result<std::string> target = GrpcTarget(endpoint, Lookup::kMayBlock);
    if (!target) {
      done(target.error());
      return;
    }
    peer.target = *std::move(target);
  }
  const auto call = std::make_shared<Call>();
  Access access = access_;
  {
    const std::lock_guard lock(open_->mutex);
    if (const auto told = open_->tokens.find(witness); told != open_->tokens.end()) {
      access.token = told->second;
    }
    if (open_->lost.erase(witness) > 0) {
      peer.stub.reset();
    }
    open_->calls.insert(&call->context);
  }
  if (!peer.stub) {
    peer.stub = v1::Rendezvous::NewStub(OpenChannel(peer.target, endpoint.host, access));
  }
  call->context.set_deadline(DeadlineIn(patience));
  ShowToken(call->context, access.token);
  ToProto(request, &call->request);
  peer.stub->async()->Witness(
      &call->context, &call->request, &call->reply,
      [call, done = std::move(done), witness, endpoint, patience, stub = peer.stub, open = open_,
       access](const grpc::Status& status) {
        const Result<WitnessAnswer> answer =
            status.ok() ? WitnessAnswerFromProto(call->reply)
                        : Result<WitnessAnswer>(ErrorOf(status, endpoint, patience, access));
        if (!status.ok()) {
          const std::lock_guard lock(open->mutex);
          open->lost.insert(witness);
          if (answer.error().kind == ErrorKind::kInvalid) {
            Ask(open, witness, endpoint);
          }
        }
        done(answer);
        const std::lock_guard lock(open->mutex);
        open->calls.erase(&call->context);
        open->ended.notify_all();
      });
}

}  // namespace ddprun

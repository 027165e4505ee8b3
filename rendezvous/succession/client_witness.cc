#include "rendezvous/succession/client_witness.h"

#include <grpcpp/client_context.h>

#include <condition_variable>
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
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAddressIsGood{1};  // So long a name is not looked up again.

gpr_timespec DeadlineIn(Duration duration) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(duration.count(), GPR_TIMESPAN));
}

Result<std::string> SystemsTarget(const Endpoint& endpoint) {
  return GrpcTarget(endpoint, Lookup::kMayBlock);
}

}  // namespace

struct GrpcWitnessCalls::Call {
  Call(std::size_t to, Duration limit, Done when_done)
      : witness(to), patience(limit), done(std::move(when_done)) {}

  const std::size_t witness;
  const Duration patience;
  const Clock::time_point began = Clock::now();
  const Done done;
  grpc::ClientContext context;
  v1::WitnessRequest request;
  v1::WitnessReply reply;
};

struct GrpcWitnessCalls::Peer {
  Endpoint endpoint;
  Result<std::string> target = std::string();  // Empty: a name that was not looked up yet.
  bool is_name = false;
  bool looking = false;
  Clock::time_point looked;
  std::shared_ptr<Stub> stub;
  bool lost = false;  // To be connected with anew.
  bool asking = false;
  std::string token;  // That was told.

  bool IsFound() const { return target && !target->empty(); }
};

// What threads that may hang share with whoever asks.
struct GrpcWitnessCalls::Open : std::enable_shared_from_this<Open> {
  void Send(const std::shared_ptr<Call>& call);
  void SendOnceFound(const std::shared_ptr<Call>& call);
  void OnAnswer(const std::shared_ptr<Call>& call, const Result<WitnessAnswer>& answer);
  // Under the lock:
  void FindAddress(Peer& peer);
  void AskForToken(Peer& peer);

  Access access;
  AskToken ask;
  LookUp look_up;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Peer> peers;
  std::set<grpc::ClientContext*> calls;  // That gRPC has not let go of.
  bool closed = false;
};

GrpcWitnessCalls::GrpcWitnessCalls(const std::vector<Endpoint>& list, Access access, AskToken ask,
                                   LookUp look_up)
    : open_(std::make_shared<Open>()) {
  open_->access = std::move(access);
  open_->ask = std::move(ask);
  open_->look_up = look_up ? std::move(look_up) : SystemsTarget;
  for (const Endpoint& endpoint : list) {
    Peer peer{.endpoint = endpoint, .target = GrpcTarget(endpoint, Lookup::kAddressOnly)};
    peer.is_name = !peer.IsFound();
    open_->peers.push_back(std::move(peer));
  }
}

GrpcWitnessCalls::~GrpcWitnessCalls() {
  std::unique_lock lock(open_->mutex);
  open_->closed = true;
  open_->changed.notify_all();
  for (grpc::ClientContext* context : open_->calls) {
    context->TryCancel();
  }
  open_->changed.wait(lock, [this] { return open_->calls.empty(); });
}

void GrpcWitnessCalls::Send(std::size_t witness, const WitnessRequest& request, Duration patience,
                            Done done) {
  const auto call = std::make_shared<Call>(witness, patience, std::move(done));
  ToProto(request, &call->request);
  std::unique_lock lock(open_->mutex);
  if (open_->peers[witness].IsFound()) {
    lock.unlock();
    open_->Send(call);
    return;
  }
  open_->FindAddress(open_->peers[witness]);
  lock.unlock();
  if (!StartThread([open = open_, call] { open->SendOnceFound(call); })) {
    call->done(Error{ErrorKind::kUnavailable, "no thread to look names up on"});
  }
}

// On a thread of its own, which waits no longer than for an answer.
void GrpcWitnessCalls::Open::SendOnceFound(const std::shared_ptr<Call>& call) {
  std::unique_lock lock(mutex);
  const Peer& peer = peers[call->witness];
  changed.wait_for(lock, call->patience, [&] { return !peer.looking || closed; });
  if (peer.IsFound() && !closed) {
    lock.unlock();
    Send(call);
    return;
  }
  const Error error =
      peer.target
          ? Error{ErrorKind::kUnavailable,
                  "cannot reach the rendezvous at " + ToString(peer.endpoint) + ": looking up '" +
                      peer.endpoint.host + "' takes longer than " + FormatDuration(call->patience)}
          : peer.target.error();
  lock.unlock();
  call->done(error);
}

void GrpcWitnessCalls::Open::FindAddress(Peer& peer) {
  const Clock::time_point now = Clock::now();
  if (!peer.is_name || peer.looking || (peer.IsFound() && now < peer.looked + kAddressIsGood)) {
    return;
  }
  peer.looked = now;
  peer.looking = StartThread([self = shared_from_this(), &peer] {
    const Result<std::string> target = self->look_up(peer.endpoint);
    const std::lock_guard lock(self->mutex);
    peer.looking = false;
    peer.lost |= target && peer.target && *target != *peer.target;
    if (target || !peer.IsFound()) {  // Else it is where it was, as far as anybody knows.
      peer.target = target;
    }
    self->changed.notify_all();
  });
}

void GrpcWitnessCalls::Open::AskForToken(Peer& peer) {
  if (!ask || peer.asking) {
    return;
  }
  peer.asking = StartThread([self = shared_from_this(), &peer] {
    std::string token = self->ask(peer.endpoint);
    const std::lock_guard lock(self->mutex);
    peer.asking = false;
    if (!token.empty()) {
      peer.token = std::move(token);
      peer.lost = true;  // A connection shows one token.
    }
  });
}

void GrpcWitnessCalls::Open::Send(const std::shared_ptr<Call>& call) {
  std::unique_lock lock(mutex);
  if (closed) {
    lock.unlock();
    call->done(Error{ErrorKind::kUnavailable, "the witnesses are not asked any more"});
    return;
  }
  Peer& peer = peers[call->witness];
  Access shown = access;
  if (!peer.token.empty()) {
    shown.token = peer.token;
  }
  if (std::exchange(peer.lost, false) || !peer.stub) {
    peer.stub = v1::Rendezvous::NewStub(OpenChannel(*peer.target, peer.endpoint.host, shown));
  }
  calls.insert(&call->context);
  const std::shared_ptr<Stub> stub = peer.stub;
  lock.unlock();
  const auto waited = std::chrono::duration_cast<Duration>(Clock::now() - call->began);
  call->context.set_deadline(DeadlineIn(call->patience - waited));
  ShowToken(call->context, shown.token);
  stub->async()->Witness(
      &call->context, &call->request, &call->reply,
      [self = shared_from_this(), call, shown, stub](const grpc::Status& status) {
        self->OnAnswer(call, status.ok() ? WitnessAnswerFromProto(call->reply)
                                         : Result<WitnessAnswer>(
                                               ErrorOf(status, self->peers[call->witness].endpoint,
                                                       call->patience, shown)));
      });
}

void GrpcWitnessCalls::Open::OnAnswer(const std::shared_ptr<Call>& call,
                                      const Result<WitnessAnswer>& answer) {
  if (!answer) {
    const std::lock_guard lock(mutex);
    Peer& peer = peers[call->witness];
    peer.lost = true;
    FindAddress(peer);
    if (answer.error().kind == ErrorKind::kInvalid) {
      AskForToken(peer);
    }
  }
  call->done(answer);
  const std::lock_guard lock(mutex);
  calls.erase(&call->context);
  changed.notify_all();
}

}  // namespace ddprun

#include "rendezvous/client_witness.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/convert.h"
#include "rendezvous/grpc_channel.h"
#include "rendezvous/wire_gate.h"

namespace ddprun {
namespace {

using Stub = v1::Rendezvous::Stub;

constexpr Duration kLeastPatience{200};

gpr_timespec DeadlineIn(Duration duration) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(duration.count(), GPR_TIMESPAN));
}

}  // namespace

// The answers to one request. gRPC's threads add to it; the caller waits.
struct WitnessClient::Round {
  Round(std::size_t listed, const WitnessRequest& request) : ballot(listed, request) {}

  std::mutex mutex;
  std::condition_variable changed;
  Ballot ballot;
  std::size_t open = 0;
  std::string trouble;
  std::vector<std::size_t> lost;  // Witnesses to connect with anew.
};

// All calls that gRPC has not let go of.
struct WitnessClient::Calls {
  std::mutex mutex;
  std::condition_variable ended;
  std::set<grpc::ClientContext*> open;
};

struct WitnessClient::Peer {
  std::string target;          // Once it was looked up.
  std::shared_ptr<Stub> stub;  // None: not connected, or the connection was given up.
};

std::uint64_t DigestOf(const std::vector<Endpoint>& list) {
  std::uint64_t digest = 0xcbf29ce484222325;  // FNV-1a, which every build computes alike.
  for (const Endpoint& endpoint : list) {
    for (const char c : ToString(endpoint) + "\n") {
      digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  }
  return digest;
}

WitnessClient::WitnessClient(std::vector<Endpoint> list, Access access)
    : list_(std::move(list)),
      digest_(DigestOf(list_)),
      access_(std::move(access)),
      peers_(list_.size()),
      calls_(std::make_shared<Calls>()) {}

WitnessClient::~WitnessClient() {
  std::unique_lock lock(calls_->mutex);
  for (grpc::ClientContext* context : calls_->open) {
    context->TryCancel();
  }
  calls_->ended.wait(lock, [this] { return calls_->open.empty(); });
}

void WitnessClient::Start(std::size_t witness, const WitnessRequest& request,
                          const std::shared_ptr<Round>& round) {
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
      const std::lock_guard lock(round->mutex);
      round->trouble = target.error().message;
      return;
    }
    peer.target = *std::move(target);
  }
  if (!peer.stub) {
    peer.stub = v1::Rendezvous::NewStub(OpenChannel(peer.target, endpoint.host, access_));
  }
  const Duration patience = std::max(request.lease / kRoundsPerLease, kLeastPatience);
  const auto call = std::make_shared<Call>();
  call->context.set_deadline(DeadlineIn(patience));
  ShowToken(call->context, access_.token);
  ToProto(request, &call->request);
  {
    const std::lock_guard lock(calls_->mutex);
    calls_->open.insert(&call->context);
  }
  {
    const std::lock_guard lock(round->mutex);
    ++round->open;
  }
  peer.stub->async()->Witness(
      &call->context, &call->request, &call->reply,
      [call, round, witness, endpoint, patience, stub = peer.stub, calls = calls_,
       access = access_](const grpc::Status& status) {
        Result<WitnessAnswer> answer =
            status.ok() ? WitnessAnswerFromProto(call->reply)
                        : Result<WitnessAnswer>(ErrorOf(status, endpoint, patience, access));
        {
          const std::lock_guard lock(round->mutex);
          --round->open;
          if (answer) {
            round->ballot.Add(witness, *answer);
          } else {
            round->trouble = answer.error().message;
            round->lost.push_back(witness);
          }
          round->changed.notify_all();
        }
        const std::lock_guard lock(calls->mutex);
        calls->open.erase(&call->context);
        calls->ended.notify_all();
      });
}

Ballot WitnessClient::Ask(const WitnessRequest& request) {
  const auto round = std::make_shared<Round>(list_.size(), request);
  for (std::size_t witness = 0; witness < list_.size(); ++witness) {
    Start(witness, request, round);
  }
  std::unique_lock lock(round->mutex);
  round->changed.wait(lock, [&] { return round->open == 0 || round->ballot.Decided(); });
  // A fresh connection next time: after a failure gRPC would not try again for a while.
  for (const std::size_t witness : round->lost) {
    peers_[witness].stub.reset();
  }
  trouble_ = round->trouble;
  return round->ballot;
}

Error WitnessClient::Explained(Error error) const {
  if (error.kind == ErrorKind::kUnavailable && !trouble_.empty()) {
    error.message += " (" + trouble_ + ")";
  }
  return error;
}

Result<std::optional<Claim>> WitnessClient::Newest(Duration lease) {
  const Ballot ballot = Ask({WitnessVerb::kLook, {}, false, lease, digest_});
  everybody_new_ = ballot.EverybodyNew();
  Result<std::optional<Claim>> newest = ballot.Newest();
  return newest ? newest : Explained(newest.error());
}

Result<void> WitnessClient::Make(const Claim& claim, Duration lease) {
  const Ballot ballot = Ask({WitnessVerb::kBack, claim, everybody_new_, lease, digest_});
  const Result<void> made = ballot.Made();
  if (made) {
    return made;
  }
  // It can never be made any more. Nobody waits for that: another node may be about to try.
  const WitnessRequest release{WitnessVerb::kRelease, claim, false, lease, digest_};
  const auto round = std::make_shared<Round>(list_.size(), release);
  for (std::size_t witness = 0; witness < list_.size(); ++witness) {
    Start(witness, release, round);
  }
  return Explained(made.error());
}

Result<bool> WitnessClient::Move(const Claim& claim, Duration lease) {
  const Ballot ballot = Ask({WitnessVerb::kMove, claim, false, lease, digest_});
  for (const auto& [witness, stray] : ballot.Strays()) {
    const WitnessRequest release{WitnessVerb::kRelease, stray, false, lease, digest_};
    Start(witness, release, std::make_shared<Round>(list_.size(), release));
  }
  const Result<bool> moved = ballot.Moved();
  return moved ? moved : Explained(moved.error());
}

Result<void> WitnessClient::Announce(const Endpoint&, const std::string&) {
  return {};  // Its own run directory tells verbs on its machine; on others they name the list.
}

std::string WitnessClient::Where() const {
  std::string text;
  for (const Endpoint& endpoint : list_) {
    text += (text.empty() ? "the majority of " : ", ") + ToString(endpoint);
  }
  return text;
}

}  // namespace ddprun

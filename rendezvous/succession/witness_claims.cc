#include "rendezvous/succession/witness_claims.h"

#include <algorithm>
#include <utility>

#include "rendezvous/messages/lease.h"

namespace ddprun {

std::uint64_t DigestOf(const std::vector<Endpoint>& list) {
  std::uint64_t digest = 0xcbf29ce484222325;  // FNV-1a, which every build computes alike.
  for (const Endpoint& endpoint : list) {
    for (const char c : ToString(endpoint) + "\n") {
      digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  }
  return digest;
}

// ---- One round ----
void WitnessRound::Expect() {
  const std::lock_guard lock(mutex_);
  ++open_;
}

void WitnessRound::Add(std::size_t witness, const Result<WitnessAnswer>& answer) {
  const std::lock_guard lock(mutex_);
  --open_;
  if (answer) {
    ballot_.Add(witness, *answer);
  } else {
    trouble_ = answer.error().message;
  }
  changed_.notify_all();
}

bool WitnessRound::IsOver() const {
  const std::lock_guard lock(mutex_);
  return open_ == 0 || ballot_.Decided();
}

void WitnessRound::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return open_ == 0 || ballot_.Decided(); });
}

Ballot WitnessRound::ballot() const {
  const std::lock_guard lock(mutex_);
  return ballot_;
}

std::string WitnessRound::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

// ---- The claims ----
WitnessClaims::WitnessClaims(std::vector<Endpoint> list, std::unique_ptr<WitnessCalls> calls)
    : list_(std::move(list)), digest_(DigestOf(list_)), calls_(std::move(calls)) {}

void WitnessClaims::Tell(std::size_t witness, const WitnessRequest& request,
                         const std::shared_ptr<WitnessRound>& round) {
  round->Expect();
  calls_->Send(
      witness, request, request.lease / kRoundsPerLease,
      [round, witness](const Result<WitnessAnswer>& answer) { round->Add(witness, answer); });
}

std::shared_ptr<WitnessRound> WitnessClaims::TellAll(const WitnessRequest& request) {
  const auto round = std::make_shared<WitnessRound>(list_.size(), request);
  for (std::size_t witness = 0; witness < list_.size(); ++witness) {
    Tell(witness, request, round);
  }
  return round;
}

Ballot WitnessClaims::Ask(const WitnessRequest& request) {
  const std::shared_ptr<WitnessRound> round = TellAll(request);
  calls_->Await(*round);
  trouble_ = round->trouble();
  return round->ballot();
}

Error WitnessClaims::Explained(Error error) const {
  if (error.kind == ErrorKind::kUnavailable && !trouble_.empty()) {
    error.message += " (" + trouble_ + ")";
  }
  return error;
}

Result<std::optional<Claim>> WitnessClaims::Newest(Duration lease) {
  const Ballot ballot = Ask({WitnessVerb::kLook, {}, false, lease, digest_});
  everybody_new_ = ballot.EverybodyNew();
  Result<std::optional<Claim>> newest = ballot.Newest();
  return newest ? newest : Explained(newest.error());
}

Result<Claim> WitnessClaims::Make(const Claim& claim, Duration lease) {
  const Ballot ballot = Ask({WitnessVerb::kBack, claim, everybody_new_, lease, digest_});
  Result<Claim> made = ballot.Made();
  if (made) {
    return made;
  }
  // It can never be made any more. Nobody waits for that: another node may be about to try.
  TellAll({WitnessVerb::kRelease, claim, false, lease, digest_});
  return Explained(made.error());
}

Result<bool> WitnessClaims::Move(const Claim& claim, Duration lease) {
  const Ballot ballot = Ask({WitnessVerb::kMove, claim, false, lease, digest_});
  for (const auto& [witness, stray] : ballot.Strays()) {
    const WitnessRequest release{WitnessVerb::kRelease, stray, false, lease, digest_};
    Tell(witness, release, std::make_shared<WitnessRound>(list_.size(), release));
  }
  const Result<bool> moved = ballot.Moved();
  return moved ? moved : Explained(moved.error());
}

Result<void> WitnessClaims::Announce(const Endpoint&, const std::string&) {
  return {};  // Its own run directory tells verbs on its machine; on others they name the list.
}

std::string WitnessClaims::Where() const {
  std::string text;
  for (const Endpoint& endpoint : list_) {
    text += (text.empty() ? "the majority of " : ", ") + ToString(endpoint);
  }
  return text;
}

}  // namespace ddprun

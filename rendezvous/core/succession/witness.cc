#include "rendezvous/core/succession/witness.h"

#include <algorithm>

#include "rendezvous/core/fencing.h"

namespace ddprun {
namespace {

constexpr int kLeasesToKnow = 2;

bool SameMaker(const Claim& a, const Claim& b) {
  return a.number == b.number && a.term == b.term && a.endpoint == b.endpoint;
}

}  // namespace

// ---- One witness ----
bool Witness::JustStarted(const WitnessRequest& request, Time now) const {
  return now < started_ + kLeasesToKnow * std::max(request.lease, kLongLease);
}

WitnessAnswer Witness::Answer(const WitnessRequest& request, Time now) {
  // A holder whose claim was forgotten here answers nobody any more two leases after the start.
  const Duration fence = fence_after_ > Duration{0} ? fence_after_ + kKillTakes : Duration{0};
  const bool fresh = JustStarted(request, now - fence);
  bool accepted = true;
  switch (request.verb) {
    case WitnessVerb::kLook:
      break;
    case WitnessVerb::kBack:
      accepted = Back(request, now);
      break;
    case WitnessVerb::kMove:
      accepted = Move(request, now);
      break;
    case WitnessVerb::kRelease:
      if (newest_ && SameMaker(*newest_, request.claim) && newest_->counter == 0) {
        newest_ = std::exchange(before_, std::nullopt);
        moved_ = moved_before_;  // Else candidates that fail in turn keep the old claim for ever.
      }
      break;
  }
  return {fresh, accepted, newest_};
}

bool Witness::Back(const WitnessRequest& request, Time now) {
  const Claim& claim = request.claim;
  if (newest_ && SameMaker(*newest_, claim)) {
    return true;  // Asked again.
  }
  const bool first = request.everybody_new && !newest_;
  const bool kept =
      newest_ && !newest_->closed && now < moved_ + std::max(request.lease, newest_->lease);
  const bool known = newest_ && claim.number <= newest_->number;
  // Backed, and never moved: its holder, if there was one, has let go. The word that releases it
  // was lost.
  const bool stray = newest_ && claim.number == newest_->number && newest_->counter == 0 &&
                     now >= moved_ + kLeasesUntilStale * request.lease;
  if ((JustStarted(request, now) && !first) || kept || (known && !stray)) {
    return false;
  }
  const std::vector<EndedRun> ended = newest_ ? newest_->ended : std::vector<EndedRun>();
  if (!stray) {
    before_ = newest_;
    moved_before_ = moved_;
  }
  newest_ = claim;
  Merge(newest_->ended, ended, kMostEndedInClaim);
  moved_ = now;
  return true;
}

bool Witness::Move(const WitnessRequest& request, Time now) {
  Claim claim = request.claim;
  if (newest_ && SameMaker(*newest_, claim)) {  // Requests may overtake each other.
    if (newest_->counter > claim.counter) {
      claim.counter = newest_->counter;
      claim.ended = newest_->ended;
      claim.lease = newest_->lease;
    }
    claim.closed = claim.closed || newest_->closed;
    claim.over = claim.over || newest_->over;
    claim.left = newest_->left ? newest_->left : claim.left;  // Nothing is left for ever.
  } else if (newest_ && claim.closed && !newest_->closed && now < moved_ + request.lease) {
    return false;  // Its holder stood still while the list forgot it and another one began.
  } else if (newest_ && claim.term < newest_->term) {
    // Of one number the one that found no majority never moves.
    const bool loser = claim.number == newest_->number && newest_->counter == 0;
    if (!loser) {
      return false;
    }
  }
  newest_ = claim;
  before_.reset();
  moved_ = now;
  return true;
}

// ---- A round of answers ----
void Ballot::Add(std::size_t witness, const WitnessAnswer& answer) {
  entries_.push_back({witness, answer});
}

std::size_t Ballot::Accepted() const {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const Entry& one) { return one.answer.accepted; }));
}

bool Ballot::Decided() const {
  if (entries_.size() == listed_) {
    return true;
  }
  switch (request_.verb) {
    case WitnessVerb::kLook:
      return std::count_if(entries_.begin(), entries_.end(),
                           [](const Entry& one) { return !one.answer.fresh; }) >=
                 static_cast<std::ptrdiff_t>(Majority()) &&
             (KnownToMajority() || !Disagree());
    case WitnessVerb::kBack:
    case WitnessVerb::kMove:
      return Accepted() >= Majority() || entries_.size() - Accepted() > listed_ - Majority();
    case WitnessVerb::kRelease:
      return false;
  }
  return false;
}

Error Ballot::TooFew(const std::string& what, std::size_t have) const {
  return {ErrorKind::kUnavailable, std::to_string(have) + " of the " + std::to_string(listed_) +
                                       " nodes of the list " + what + ", and it takes " +
                                       std::to_string(Majority())};
}

bool Ballot::EverybodyNew() const {
  return entries_.size() == listed_ &&
         std::all_of(entries_.begin(), entries_.end(),
                     [](const Entry& one) { return one.answer.fresh && !one.answer.newest; });
}

bool Ballot::Disagree() const {
  const Claim* first = nullptr;
  for (const Entry& one : entries_) {
    if (one.answer.newest && first != nullptr && !SameMaker(*one.answer.newest, *first)) {
      return true;
    }
    first = one.answer.newest ? &*one.answer.newest : first;
  }
  return false;
}

// The one that was made last, whatever its term: the list may have forgotten one of a later term,
// which then is known to those alone whom its holder reaches.
std::optional<Claim> Ballot::KnownToMajority() const {
  for (const Entry& one : entries_) {
    const auto same = [&](const Entry& other) {
      return one.answer.newest && other.answer.newest &&
             SameMaker(*one.answer.newest, *other.answer.newest);
    };
    const auto known = std::count_if(entries_.begin(), entries_.end(), same);
    if (static_cast<std::size_t>(known) >= Majority()) {
      return one.answer.newest;
    }
  }
  return std::nullopt;
}

Result<std::optional<Claim>> Ballot::Newest() const {
  if (EverybodyNew()) {
    return std::optional<Claim>();
  }
  const std::optional<Claim> prevailing = KnownToMajority();
  std::size_t knowing = 0;
  std::optional<Claim> newest;
  bool tied = false;  // Two made the same number, and neither has moved yet.
  for (const Entry& one : entries_) {
    knowing += one.answer.fresh ? 0 : 1;
    const std::optional<Claim>& claim = one.answer.newest;
    if (!claim || (prevailing && !SameMaker(*claim, *prevailing))) {
      continue;
    }
    const bool same_number = newest && claim->number == newest->number;
    if (same_number && !SameMaker(*claim, *newest)) {
      tied = claim->counter == newest->counter;
    }
    if (!newest || (!same_number && claim->term > newest->term) ||
        (same_number && claim->counter > newest->counter)) {
      tied = tied && same_number && claim->counter == newest->counter;
      newest = claim;
    }
  }
  // Its last move and the word that closes it may have overtaken each other.
  for (const Entry& one : entries_) {
    const std::optional<Claim>& claim = one.answer.newest;
    if (newest && claim && claim->closed && SameMaker(*claim, *newest)) {
      newest->closed = true;
      newest->over = newest->over || claim->over;
      newest->left = claim->left ? claim->left : newest->left;
    }
  }
  if (entries_.size() < Majority()) {
    return TooFew("answer", entries_.size());
  }
  // Who has just started may know of a claim all the same; it does not know that there is none.
  if (!newest && knowing < Majority()) {
    return TooFew("have been up for long enough to know who serves", knowing);
  }
  if (tied) {
    return Error{ErrorKind::kRefused, "two nodes are taking the server's part over"};
  }
  return newest;
}

Result<Claim> Ballot::Made() const {
  if (Accepted() >= Majority()) {
    Claim made = request_.claim;
    for (const Entry& one : entries_) {
      if (one.answer.accepted && one.answer.newest) {
        Merge(made.ended, one.answer.newest->ended, kMostEndedInClaim);
      }
    }
    return made;
  }
  const bool beaten = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& one) {
    return one.answer.newest && !SameMaker(*one.answer.newest, request_.claim) &&
           one.answer.newest->number >= request_.claim.number;
  });
  if (beaten) {
    return Error{ErrorKind::kRefused, "another node was first"};
  }
  return TooFew("back this node", Accepted());
}

Result<bool> Ballot::Moved() const {
  if (Accepted() >= Majority()) {
    return false;  // Whatever a minority knows of cannot have been made.
  }
  if (std::any_of(entries_.begin(), entries_.end(),
                  [&](const Entry& one) { return !one.answer.accepted; })) {
    return true;
  }
  return TooFew("answer", Accepted());
}

std::vector<std::pair<std::size_t, Claim>> Ballot::Strays() const {
  std::vector<std::pair<std::size_t, Claim>> strays;
  if (request_.verb == WitnessVerb::kMove && Accepted() >= Majority()) {
    for (const Entry& one : entries_) {
      if (!one.answer.accepted && one.answer.newest) {
        strays.emplace_back(one.witness, *one.answer.newest);
      }
    }
  }
  return strays;
}

}  // namespace ddprun

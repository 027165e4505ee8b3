#include "rendezvous/succession/estate.h"

#include <algorithm>
#include <utility>

namespace ddprun {

void EstateKeeper::NoteReport(const NodeReport& report) {
  std::vector<Incarnation>& known = held_.estate.incarnations;
  if (run_ == report.run_id && std::ranges::find(known, report.incarnation) != known.end()) {
    return;
  }
  run_ = report.run_id;
  held_.estate.node = report.node;
  known.push_back(report.incarnation);
  if (known.size() > kMostIncarnations) {
    known.erase(known.begin());
  }
  Write();
}

void EstateKeeper::Begin(const Claim& claim) {
  serves_ = true;
  held_.claim = claim;
  held_.claim.ended.clear();
  held_.estate.record = {};
  Write();
}

// A run that has ended is told by the claim, and by whoever has heard so.
void EstateKeeper::Keep(const RunRecord& record) {
  if (serves_ && record.run_id == run_) {
    held_.estate.record = record;
    Write();
  }
}

void EstateKeeper::End() {
  serves_ = false;
  Write();
}

void EstateKeeper::Write() {
  const RunRecord& record = held_.estate.record;
  const bool holds = serves_ && record.world && !record.outcome;
  if (std::exchange(holds_, holds) || holds) {
    hold_(holds ? std::optional(held_) : std::nullopt);
  }
}

Result<bool> CloseForTheDead(Claims& claims, const HeldEstate& held) {
  const Claim& own = held.claim;
  ASSIGN_OR_RETURN(const std::optional<Claim> newest, claims.Newest());
  if (!newest || newest->closed || newest->number != own.number || newest->term != own.term ||
      newest->endpoint != own.endpoint) {
    return false;
  }
  Claim closed = *newest;
  ++closed.counter;
  closed.closed = true;
  closed.left = held.estate;
  ASSIGN_OR_RETURN(const bool superseded, claims.Move(closed));
  return !superseded;
}

}  // namespace ddprun

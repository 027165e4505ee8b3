// What the guard holds of a server, as bytes.
#include "rendezvous/journal_file.h"
#include "rendezvous/wire/convert.h"
#include "rendezvous/wire/wire_parts.h"

namespace ddprun {
namespace {

Claim Read(const v1::Claim& wire, Reader& in) {
  Claim claim;
  claim.number = wire.number();
  if (claim.number == 0) {
    in.Refuse("claim.number", "is missing");
  }
  claim.term = in.Term("claim.term", wire.term());
  claim.endpoint = Read(wire.endpoint(), in);
  claim.counter = in.Count("claim.counter", wire.counter());
  claim.closed = wire.closed();
  claim.over = claim.closed && wire.over();
  claim.lease = in.Duration("claim.lease", wire.lease_ms());
  in.Number<int>("claim.ended", wire.ended_size(), 0, static_cast<int>(kMostEndedInClaim));
  for (const v1::EndedRun& run : wire.ended()) {
    claim.ended.push_back(Read(run, in));
  }
  if (claim.closed && wire.has_left()) {
    claim.left = Read(wire.left(), in);
  }
  return claim;
}

void Write(const Claim& claim, v1::Claim* wire) {
  wire->set_number(claim.number);
  wire->set_term(claim.term.value);
  Write(claim.endpoint, wire->mutable_endpoint());
  wire->set_counter(claim.counter);
  wire->set_closed(claim.closed);
  wire->set_over(claim.over);
  wire->set_lease_ms(claim.lease.count());
  for (const EndedRun& run : claim.ended) {
    Write(run, wire->add_ended());
  }
  if (claim.left) {
    Write(*claim.left, wire->mutable_left());
  }
}

}  // namespace

std::string Encode(const HeldEstate& held) {
  v1::HeldEstate wire;
  Write(held.claim, wire.mutable_claim());
  Write(held.estate, wire.mutable_estate());
  return wire.SerializeAsString();
}

Result<HeldEstate> DecodeHeldEstate(const std::string& bytes) {
  v1::HeldEstate wire;
  if (!wire.ParseFromString(bytes)) {
    return Error{ErrorKind::kInvalid, "is no estate of this program's"};
  }
  Reader in(kServersAhead);
  HeldEstate held{Read(wire.claim(), in), Read(wire.estate(), in)};
  return in.ok() ? Result<HeldEstate>(std::move(held)) : in.error();
}

}  // namespace ddprun

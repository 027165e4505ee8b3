// What nodes of a list say to each other about claims, on the wire.
#include "rendezvous/journal_file.h"
#include "rendezvous/wire/convert.h"
#include "rendezvous/wire/wire_parts.h"

namespace ddprun {
namespace {

constexpr Names<WitnessVerb, v1::WitnessVerb, 4> kWitnessVerb = {{
    {WitnessVerb::kLook, v1::WITNESS_VERB_LOOK},
    {WitnessVerb::kBack, v1::WITNESS_VERB_BACK},
    {WitnessVerb::kMove, v1::WITNESS_VERB_MOVE},
    {WitnessVerb::kRelease, v1::WITNESS_VERB_RELEASE},
}};

Claim Read(const v1::Claim& wire, Reader& in) {
  Claim claim;
  // A list's first claim has its reign's term for a number.
  claim.number = in.Term("claim.number", wire.number()).value;
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

Result<WitnessRequest> WitnessRequestFromProto(const v1::WitnessRequest& wire) {
  if (wire.protocol() != kProtocol) {
    return OtherProtocol(wire.protocol());
  }
  Reader in(kServersAhead);
  WitnessRequest request;
  request.verb = in.Enum("verb", kWitnessVerb, wire.verb());
  if (request.verb != WitnessVerb::kLook) {
    request.claim = Read(wire.claim(), in);
  }
  request.everybody_new = wire.everybody_new();
  request.lease = in.Duration("lease", wire.lease_ms());
  request.list = wire.list();
  return in.ok() ? Result<WitnessRequest>(request) : in.error();
}

Result<WitnessAnswer> WitnessAnswerFromProto(const v1::WitnessReply& wire) {
  Reader in(kServersAhead);
  WitnessAnswer answer;
  answer.fresh = wire.fresh();
  answer.accepted = wire.accepted();
  if (wire.has_newest()) {
    answer.newest = Read(wire.newest(), in);
  }
  return in.ok() ? Result<WitnessAnswer>(answer) : in.error();
}

void ToProto(const WitnessRequest& request, v1::WitnessRequest* wire) {
  wire->set_protocol(kProtocol);
  wire->set_verb(
      std::ranges::find(kWitnessVerb, request.verb, &std::pair<WitnessVerb, v1::WitnessVerb>::first)
          ->second);
  if (request.verb != WitnessVerb::kLook) {
    Write(request.claim, wire->mutable_claim());
  }
  wire->set_everybody_new(request.everybody_new);
  wire->set_lease_ms(request.lease.count());
  wire->set_list(request.list);
}

void ToProto(const WitnessAnswer& answer, v1::WitnessReply* wire) {
  wire->set_fresh(answer.fresh);
  wire->set_accepted(answer.accepted);
  if (answer.newest) {
    Write(*answer.newest, wire->mutable_newest());
  }
}

}  // namespace ddprun

#include "rendezvous/wire/ended_run.h"

#include "rendezvous/wire/wire_messages.h"

namespace ddprun {

std::string Encode(const EndedRun& run) {
  v1::ClaimEntry wire;
  WriteFields(run, wire.mutable_ended());
  return wire.SerializeAsString();
}

Result<EndedRun> DecodeEndedRun(const std::string& bytes) {
  v1::ClaimEntry wire;
  if (!wire.ParseFromString(bytes) || !wire.has_ended()) {
    return Error{ErrorKind::kInvalid, "is not a record of this program"};
  }
  Reader in(kServersAhead);
  return ReadFields<EndedRun>(wire.ended(), in, "ended");
}

}  // namespace ddprun

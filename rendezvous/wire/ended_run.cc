#include "rendezvous/wire/ended_run.h"

#include "rendezvous/wire/wire_parts.h"

namespace ddprun {

std::string Encode(const EndedRun& run) {
  v1::ClaimEntry wire;
  v1::EndedRun* const ended = wire.mutable_ended();
  ended->set_run_id(run.run_id);
  ended->set_newest(run.newest.value);
  Write(run.outcome, ended->mutable_outcome());
  return wire.SerializeAsString();
}

Result<EndedRun> DecodeEndedRun(const std::string& bytes) {
  v1::ClaimEntry wire;
  if (!wire.ParseFromString(bytes) || !wire.has_ended()) {
    return Error{ErrorKind::kInvalid, "is no record of this program's"};
  }
  Reader in(kServersAhead);
  EndedRun run{in.Name("ended.run_id", wire.ended().run_id()),
               in.Generation("ended.newest", wire.ended().newest()),
               Read(wire.ended().outcome(), in)};
  if (!in.ok()) {
    return in.error();
  }
  return run;
}

}  // namespace ddprun

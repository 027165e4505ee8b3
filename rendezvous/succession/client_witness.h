// Requests to the witnesses of a list over gRPC. Decides nothing.
//
// Where each witness has a token of its own, who is refused asks for it on a thread, which may hang
// and holds nobody up: a later request shows it.
//
// Names are looked up beside each other, each on a thread that may hang: a request to a name that
// is not known yet waits for it, no longer than for an answer. A witness that could not be reached
// is looked up again, since it may have moved, and connected with anew the next time: gRPC would
// not try for a while. One thread sends; the answers come on gRPC's, or on a look-up's.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/endpoint.h"
#include "rendezvous/door/tls.h"
#include "rendezvous/succession/witness_claims.h"

namespace ddprun {

class GrpcWitnessCalls final : public WitnessCalls {
 public:
  // What a witness is to be shown; empty: nothing is known. May block.
  using AskToken = std::function<std::string(const Endpoint&)>;

  // gRPC's target. May block.
  using LookUp = std::function<Result<std::string>(const Endpoint&)>;

  // `ask`: none where all have the token of `access`. `look_up`: none for the system's names.
  GrpcWitnessCalls(const std::vector<Endpoint>& list, Access access, AskToken ask = nullptr,
                   LookUp look_up = nullptr);
  ~GrpcWitnessCalls() override;

  void Send(std::size_t witness, const WitnessRequest& request, Duration patience,
            Done done) override;

 private:
  struct Call;
  struct Peer;
  struct Open;

  const std::shared_ptr<Open> open_;
};

}  // namespace ddprun

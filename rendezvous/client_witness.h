// Requests to the witnesses of a list over gRPC. Decides nothing.
//
// A witness that could not be reached is connected with anew the next time: gRPC would not try for
// a while. One thread sends; the answers come on gRPC's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/endpoint.h"
#include "rendezvous/tls.h"
#include "rendezvous/witness_claims.h"

namespace ddprun {

class GrpcWitnessCalls final : public WitnessCalls {
 public:
  GrpcWitnessCalls(std::vector<Endpoint> list, Access access);
  ~GrpcWitnessCalls() override;

  void Send(std::size_t witness, const WitnessRequest& request, Duration patience,
            Done done) override;

 private:
  struct Open;
  struct Peer;

  const std::vector<Endpoint> list_;
  const Access access_;
  std::vector<Peer> peers_;
  const std::shared_ptr<Open> open_;
};

}  // namespace ddprun

// Requests to the witnesses of a list over gRPC. Decides nothing.
//
// Where each witness has a token of its own, who is refused asks for it on a thread, which may hang
// and holds nobody up: a later request shows it.
//
// A witness that could not be reached is connected with anew the next time: gRPC would not try for
// a while. One thread sends; the answers come on gRPC's.
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

  // `ask`: none where all have the token of `access`.
  GrpcWitnessCalls(std::vector<Endpoint> list, Access access, AskToken ask = nullptr);
  ~GrpcWitnessCalls() override;

  void Send(std::size_t witness, const WitnessRequest& request, Duration patience,
            Done done) override;

 private:
  struct Open;
  struct Peer;

  static void Ask(const std::shared_ptr<Open>& open, std::size_t witness, const Endpoint& endpoint);

  const std::vector<Endpoint> list_;
  const Access access_;
  std::vector<Peer> peers_;
  const std::shared_ptr<Open> open_;
};

}  // namespace ddprun

// The claims to the server's part as kept by the nodes of a fixed list (core/witness.h): asks all
// of them at once, over gRPC, and waits until a majority has decided, a sixth of a lease at most.
//
// Those that are slower are still told: their calls go on beside. One that cannot be reached costs
// nothing as long as a majority can.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/endpoint.h"
#include "rendezvous/claims.h"
#include "rendezvous/core/witness.h"
#include "rendezvous/tls.h"

namespace ddprun {

// The same for the same list in the same order.
std::uint64_t DigestOf(const std::vector<Endpoint>& list);

class WitnessClient final : public Claims {
 public:
  WitnessClient(std::vector<Endpoint> list, Access access);
  ~WitnessClient() override;  // Gives up what is still under way.

  Result<std::optional<Claim>> Newest(Duration lease) override;
  Result<void> Make(const Claim& claim, Duration lease) override;
  Result<bool> Move(const Claim& claim, Duration lease) override;
  Result<void> Announce(const Endpoint& endpoint, const std::string& token) override;
  std::string Where() const override;

 private:
  struct Round;
  struct Calls;
  struct Peer;

  Ballot Ask(const WitnessRequest& request);
  void Start(std::size_t witness, const WitnessRequest& request,
             const std::shared_ptr<Round>& round);
  Error Explained(Error error) const;

  const std::vector<Endpoint> list_;
  const std::uint64_t digest_;
  const Access access_;
  std::vector<Peer> peers_;
  const std::shared_ptr<Calls> calls_;
  bool everybody_new_ = false;  // In the last look.
  std::string trouble_;         // What one that did not answer the last round said.
};

}  // namespace ddprun

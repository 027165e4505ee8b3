// A node's way to a server whose token MUNGE may have sealed: where a call is refused it asks at
// the endpoint for what is sealed there, once for each refusal, and calls again with that token.
//
// So it is found at the first call, and again when another server has taken the first one's place.
// The receiver gets the reason of a refusal in the channel's own words. Decides nothing else.
#pragma once

#include <memory>

#include "common/endpoint.h"
#include "common/lifetime.h"
#include "common/loop.h"
#include "rendezvous/listener/tls.h"
#include "rendezvous/transport.h"

namespace ddprun {

class SealedChannel final : public SyncChannel {
 public:
  SealedChannel(Loop& loop, const Endpoint& endpoint, Access access);

  void Send(const NodeReport& report, Duration deadline, Done done) override;
  void Cancel() override;
  // With the token of the moment.
  std::unique_ptr<CommandStream> OpenCommands(const Membership& self) override;

 private:
  void AskForToken(const NodeReport& report, Duration deadline, const Done& done,
                   const Error& refusal);

  Loop& loop_;
  const Endpoint endpoint_;
  Access access_;
  std::unique_ptr<SyncChannel> channel_;
  Lifetime question_;  // Of the last question for a token; renewed once it is given up.
};

}  // namespace ddprun

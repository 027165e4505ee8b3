// A node's way to a server whose token MUNGE may have sealed: where a call is refused it asks at
// the endpoint for what is sealed there, once for each refusal, and calls again with that token.
//
// So it is found at the first call, and again when another server has taken the first one's place.
// What the receiver hears of a refusal is the channel's own words. Decides nothing else.
#pragma once

#include <memory>
#include <optional>

#include "common/endpoint.h"
#include "common/ids.h"
#include "common/loop.h"
#include "rendezvous/door/tls.h"
#include "rendezvous/transport.h"

namespace ddprun {

class SealedChannel final : public SyncChannel {
 public:
  SealedChannel(Loop& loop, const Endpoint& endpoint, const RunId& run, Access access);
  ~SealedChannel() override { *alive_ = false; }

  void Send(const NodeReport& report, Duration deadline, Done done) override;
  void Cancel() override;
  void SendRoad(const RoadCall& call, RoadHeard heard) override;  // With the token of the moment.

 private:
  struct Open {
    NodeReport report;
    Duration deadline{0};
    Done done;
  };
  void Connect();
  void Forward();
  void OnDone(std::uint64_t sequence, Result<SyncReply> reply);
  void OnToken(std::uint64_t sequence, const Result<std::string>& token, Error refusal);
  void Deliver(Result<SyncReply> reply);

  Loop& loop_;
  const Endpoint endpoint_;
  const RunId run_;
  Access access_;
  std::unique_ptr<SyncChannel> channel_;
  std::optional<Open> open_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // For a question that is asked.
};

}  // namespace ddprun

// Talks to a rendezvous server over gRPC: a node's Sync calls, and a look from outside.
//
// No gRPC thread exists before the first Send. A name is looked up on the blocking pool. After a
// missed deadline or a lost server the next call makes a fresh connection, unless the old one was
// being made while the call waited: so every call is a real attempt and the caller alone paces the
// retries. Where there is a connection, no call waits for a look-up.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/endpoint.h"
#include "common/loop.h"
#include "common/result.h"
#include "rendezvous/door/tls.h"
#include "rendezvous/transport.h"

namespace ddprun {

class GrpcSyncChannel final : public SyncChannel {
 public:
  GrpcSyncChannel(Loop& loop, const Endpoint& endpoint, Access access = {});
  ~GrpcSyncChannel() override;  // Waits for gRPC to let go of cancelled calls: microseconds.

  void Send(const NodeReport& report, Duration deadline, Done done) override;
  void Cancel() override;
  // Over the connection of the reports: it is refused where there is none.
  void SendRoad(const RoadCall& call, RoadHeard heard) override;

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with calls in flight.
};

// A run, or all runs for an empty id. Blocks for `timeout` at most, beside a look-up.
Result<std::vector<RunStatus>> AskStatus(const Endpoint& endpoint, const RunId& run_id,
                                         Duration timeout, const Access& access = {});

// What follows, in words. Blocks likewise.
Result<std::string> AskControl(const Endpoint& endpoint, const ControlRequest& request,
                               Duration timeout, const Tls& tls = {});

// An operator's way to a server, on one connection: each call asks, and blocks for as long as the
// server keeps it, `timeout` at most. Looks the name up first.
using AskingWay = std::function<Result<AskReply>(const Asking&)>;
Result<AskingWay> WayToAsk(const Endpoint& endpoint, const Access& access, Duration timeout);

}  // namespace ddprun

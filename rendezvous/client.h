// Talks to a rendezvous server over gRPC: a node's Sync calls, and a look from outside.
//
// No gRPC thread exists before the first Send. Names are looked up on bounded threads. After a
// missed deadline or a lost server the next call makes a new connection, unless the old one was
// still being made while the call waited. So every call is a real attempt, and only the caller
// paces the retries. With a connection, no call waits for a look-up.
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
  // Uses the connection of the reports. Fails if there is none.
  void SendRoad(const RoadCall& call, RoadHeard heard) override;

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with pending calls.
};

// The status of a run, or of all runs for an empty id. Blocks for `timeout` at most, plus a
// look-up.
Result<std::vector<RunStatus>> AskStatus(const Endpoint& endpoint, const RunId& run_id,
                                         Duration timeout, const Access& access = {});

// Asks for a drain or stop, and returns what follows, in words. Blocks likewise.
Result<std::string> AskControl(const Endpoint& endpoint, const ControlRequest& request,
                               Duration timeout, const Tls& tls = {});

// A function with which an operator asks a server, on one connection. Each call blocks for as long
// as the server parks it, `timeout` at most. Looks the name up first.
using AskingWay = std::function<Result<AskReply>(const Asking&)>;
Result<AskingWay> WayToAsk(const Endpoint& endpoint, const Access& access, Duration timeout);

}  // namespace ddprun

// A daemon's or a launch's stream to its pool, opened again whenever it ends.
//
// Lives on the loop. The report that Say was given last is sent at once, on every new stream, and
// every kPoolPeriod. Each try has a connection of its own.
#pragma once

#include <functional>
#include <memory>

#include "common/endpoint.h"
#include "common/loop.h"
#include "common/result.h"
#include "rendezvous/listener/tls.h"
#include "rendezvous/messages/pool_messages.h"

namespace ddprun {

class PoolClient {
 public:
  struct Told {
    std::function<void(const PoolReply&)> heard;
    // There is no stream now, and another try follows. kRefused: the server has said why not.
    std::function<void(const Error&)> lost;
  };

  PoolClient(Loop& loop, const Endpoint& endpoint, Access access, Told told);
  ~PoolClient();  // Ends the stream, and waits for gRPC to let go of it: microseconds.

  void Say(const PoolReport& report);

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with what is under way.
};

// The daemons and runs of a pool: one question, blocking.
Result<PoolStatus> AskPool(const Endpoint& endpoint, const Access& access, Duration timeout);

}  // namespace ddprun

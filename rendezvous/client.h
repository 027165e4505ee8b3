// A node's Sync calls to a rendezvous server, over gRPC.
//
// No gRPC thread exists before the first Send. Names are looked up on bounded threads. After a
// missed deadline or a lost server the next call makes a new connection, unless the old one was
// still being made while the call waited. So every call is a real attempt, and only the caller
// paces the retries. With a connection, no call waits for a look-up.
#pragma once

#include <memory>

#include "common/endpoint.h"
#include "common/loop.h"
#include "common/result.h"
#include "rendezvous/listener/tls.h"
#include "rendezvous/transport.h"

namespace ddprun {

// Its commands come on the connection of its reports. Its destruction waits for gRPC to let go of
// cancelled calls: microseconds.
std::unique_ptr<SyncChannel> GrpcChannelTo(Loop& loop, const Endpoint& endpoint,
                                           Access access = {});

}  // namespace ddprun

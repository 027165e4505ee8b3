// The agent that hosts the server talks to it without a socket: same loop, same rules.
//
// Destroying it gives up its call without a word to the server, which goes with it.
#pragma once

#include <memory>

#include "common/loop.h"
#include "rendezvous/transport.h"

namespace ddprun {

std::unique_ptr<SyncChannel> LocalChannelTo(Loop& loop, RendezvousHandlers handlers);

}  // namespace ddprun

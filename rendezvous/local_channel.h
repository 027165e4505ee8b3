// The agent that hosts the server talks to it without a socket: same loop, same rules.
//
// Destroying it gives up its call without a word to the server, which goes with it.
#pragma once

#include <memory>

#include "common/loop.h"
#include "rendezvous/transport.h"

namespace ddprun {

class LocalSyncChannel final : public SyncChannel {
 public:
  LocalSyncChannel(Loop& loop, RendezvousHandlers handlers);
  ~LocalSyncChannel() override;

  void Send(const NodeReport& report, Duration deadline, Done done) override;
  void Cancel() override;
  std::unique_ptr<CommandStream> OpenCommands(const Membership& self) override;

 private:
  struct State;
  std::shared_ptr<State> state_;  // Shared with the call that the server holds.
};

}  // namespace ddprun

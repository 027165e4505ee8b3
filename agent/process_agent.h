// A node's agent in a process of its own: the driver on real processes and stores that listen.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/agent_options.h"
#include "agent/commands/commands.h"
#include "agent/driver.h"
#include "agent/host/host_watch.h"
#include "agent/host/node_check.h"
#include "agent/listening_stores.h"
#include "agent/process_workers.h"
#include "common/asio_loop.h"

namespace ddprun {

// At random; never 0.
Incarnation DrawIncarnation();

class ProcessAgent {
 public:
  // `own_addresses`: as AgentParts has them.
  ProcessAgent(AsioLoop& loop, const std::shared_ptr<const AgentOptions>& its_options,
               std::unique_ptr<SyncChannel> channel, std::function<std::string()> own_addresses,
               std::function<void(const Exit&)> on_exit);

  // AgentDriver::Start; or the timers' FIFO cannot be made.
  Result<void> Start();

  // Finds whether this machine is fit for workers: by its own facts first, then by the user's
  // command.
  void CheckNode(CheckCause cause, std::function<void(std::string)> verdict);

  // The run has ended here. Gives a reader of its workers' output the rest, if it takes that soon.
  void FinishRequests(std::function<void()> done);

  // Gives the driver the facts of this machine and of its preload process, for its reports.
  void TellFacts();

  const std::shared_ptr<const AgentOptions> options;
  ProcessWorkers workers;
  ListeningStores stores;
  NodeCheck check;
  HostWatch host;
  SyncChannel& channel;  // The driver's.
  AgentDriver driver;    // Ends before the members above, which it uses.
  LoopTimer stop_soon;   // Gives the reply, that the stop has begun, time to arrive first.
  Commands commands;     // Ends before the driver, which it uses.
};

}  // namespace ddprun

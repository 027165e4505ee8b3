#include "agent/process_agent.h"

#include <random>
#include <utility>

namespace ddprun {
namespace {

Incarnation DrawIncarnation() {
  std::random_device device;
  return {(static_cast<std::uint64_t>(device()) << 32 | device()) | 1};
}

}  // namespace

ProcessAgent::ProcessAgent(AsioLoop& loop, const std::shared_ptr<const AgentOptions>& options,
                           std::unique_ptr<SyncChannel> channel,
                           std::function<std::string()> own_addresses,
                           std::function<void(const Exit&)> on_exit)
    : workers(loop, options),
      stores(options->store),
      driver(loop, options->core,
             AgentParts{std::move(channel), workers, stores, DrawIncarnation,
                        std::move(own_addresses), std::move(on_exit)}) {}

Result<void> ProcessAgent::Start() {
  RETURN_IF_ERROR(workers.Open());
  return driver.Start();
}

}  // namespace ddprun

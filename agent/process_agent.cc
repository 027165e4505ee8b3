#include "agent/process_agent.h"

#include <random>
#include <utility>

#include "agent/road/logs_job.h"
#include "agent/road/stacks_job.h"

namespace ddprun {
namespace {

Incarnation DrawIncarnation() {
  std::random_device device;
  return {(static_cast<std::uint64_t>(device()) << 32 | device()) | 1};
}

std::unique_ptr<ErrandJob> MakeJob(Loop& loop, ProcessWorkers& workers, const ErrandWish& wish) {
  switch (wish.kind) {
    case ErrandKind::kStacks:
      return MakeStacksJob(
          loop,
          [&workers](const ErrandWish& wanted, LiveStacks::Done done) {
            workers.TakeLiveStacks(wanted, std::move(done));
          },
          wish);
    case ErrandKind::kLogs:
      break;
  }
  return MakeLogsJob(loop, workers.kept(), wish);
}

}  // namespace

ProcessAgent::ProcessAgent(AsioLoop& loop, const std::shared_ptr<const AgentOptions>& options,
                           std::unique_ptr<SyncChannel> its_channel,
                           std::function<std::string()> own_addresses,
                           std::function<void(const Exit&)> on_exit)
    : workers(loop, options),
      stores(options->store),
      channel(*its_channel),
      driver(loop, options->core,
             AgentParts{std::move(its_channel), workers, stores, DrawIncarnation,
                        std::move(own_addresses), std::move(on_exit)}),
      road(
          loop, channel,
          [this] {
            const AgentConfig& config = driver.config();
            return RoadName{config.run_id, config.node, driver.state().incarnation};
          },
          [this, &loop](const ErrandWish& wish) { return MakeJob(loop, workers, wish); }) {}

Result<void> ProcessAgent::Start() {
  RETURN_IF_ERROR(workers.Open());
  RETURN_IF_ERROR(driver.Start());
  road.Start();
  return {};
}

}  // namespace ddprun

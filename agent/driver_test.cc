#include "agent/driver.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "tests/support/instant_loop.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

class Channel final : public SyncChannel {
 public:
  void Send(const NodeReport& report, Duration, Done done) override {
    sequence_ = report.sequence;
    done_ = std::move(done);
  }
  void Cancel() override { done_ = nullptr; }

  void Answer(const Directive& directive) {
    std::exchange(done_, nullptr)(sequence_, SyncReply{directive, 5, 3s, 1s, {1}});
  }

 private:
  std::uint64_t sequence_ = 0;
  Done done_;
};

class Workers final : public NodeWorkers {
 public:
  void Listen(WorkersEvents to) override { events = std::move(to); }
  std::filesystem::path Start(const Placement&) override { return {}; }
  std::string Starting() const override { return ""; }
  void SignalAll(int, bool) override { signalled = true; }
  void KillAll() override {}
  void TakeStacks(const std::vector<std::uint32_t>&, Duration, std::function<void()>) override {}

  WorkersEvents events;
  bool signalled = false;
};

class Stores final : public NodeStores {
 public:
  Result<void> Bind() override { return {}; }
  Endpoint Offer() override { return {"n0", 1}; }
  void Begin(const std::string&) override {}
  void End() override {}
};

// The driver of a node with `workers` workers, in generation 1.
struct RunningAgent {
  explicit RunningAgent(std::uint32_t workers_of_node)
      : driver(loop, ConfigOf(workers_of_node), Parts()) {
    EXPECT_TRUE(driver.Start());
    channel->Answer(ddprun::Run{{.term = {1}, .generation = {1}, .world_id = {1}}});
    workers.events.started({});
  }

  static AgentConfig ConfigOf(std::uint32_t workers_of_node) {
    AgentConfig config;
    config.run_id = "run";
    config.node = config.host = "n0";
    config.spec = {.min_nodes = 1, .max_nodes = 2};
    config.workers = workers_of_node;
    config.server = "s:1";
    config.hang_timeout = 1s;
    return config;
  }
  AgentParts Parts() {
    auto owned = std::make_unique<Channel>();
    channel = owned.get();
    return {.channel = std::move(owned),
            .workers = workers,
            .stores = stores,
            .draw = [] { return Incarnation{7}; },
            .own_addresses = nullptr,
            .on_exit = [](const Exit&) { FAIL(); }};
  }

  InstantLoop loop;
  Workers workers;
  Stores stores;
  Channel* channel = nullptr;
  AgentDriver driver;
};

// Their disk may hang for a second.
TEST(AgentDriver, ADeadWorkersPeersAreStoppedBeforeItsFilesAreRead) {
  RunningAgent agent(2);
  std::optional<bool> stopped_first;
  LeftFiles left{"/logs",
                 [&] {
                   stopped_first = agent.workers.signalled;
                   return WorkerRemains{{.message = "out of luck"}, {"its last line"}};
                 },
                 {}};
  agent.workers.events.ended({1, 77, Exited{3}, 0, left});
  EXPECT_EQ(stopped_first, true);
  agent.loop.RunPosted();
  const std::vector<WorkerFailure>& failures = agent.driver.state().failures;
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].details.message, "out of luck");
  EXPECT_FALSE(failures[0].stopped_by_us);
  agent.workers.events.ended({0, 76, Killed{15}, 0, left});
  agent.loop.RunPosted();
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_TRUE(failures[1].stopped_by_us);
}

}  // namespace
}  // namespace ddprun

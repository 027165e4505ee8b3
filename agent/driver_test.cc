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
  void SignalAll(int, bool) override {}
  void KillAll() override {}
  void HearNow() override {
    if (const auto said = std::exchange(on_page, std::nullopt)) {
      events.spoke(0, *said);
    }
  }
  void TakeStacks(const std::vector<std::uint32_t>&, Duration, std::function<void()>) override {}

  WorkersEvents events;
  std::optional<Notification> on_page;
};

class Stores final : public NodeStores {
 public:
  Result<void> Bind() override { return {}; }
  Endpoint Offer() override { return {"n0", 1}; }
  void Begin(const std::string&) override {}
  void End() override {}
};

Notification Told(std::uint64_t step) {
  Notification said;
  said.step = step;
  return said;
}

// Where a step wakes nobody it may have been there for a while when its worker seems late.
TEST(AgentDriver, HearsWhatIsOnAPageBeforeItJudges) {
  InstantLoop loop;
  Workers workers;
  Stores stores;
  auto owned = std::make_unique<Channel>();
  Channel& channel = *owned;
  AgentDriver driver(loop,
                     {.run_id = "run",
                      .node = "n0",
                      .host = "n0",
                      .shape = {.min_nodes = 1, .max_nodes = 2},
                      .workers = 1,
                      .server = "s:1",
                      .hang_timeout = 1s},
                     {.channel = std::move(owned),
                      .workers = workers,
                      .stores = stores,
                      .draw = [] { return Incarnation{7}; },
                      .own_addresses = nullptr,
                      .on_exit = [](const Exit&) { FAIL(); }});
  ASSERT_TRUE(driver.Start());
  channel.Answer(ddprun::Run{{.term = {1}, .generation = {1}, .world_id = {1}}});
  workers.events.started({});
  const Time begin = loop.Now();
  workers.events.spoke(0, Told(1));
  const auto late = [&] { return driver.state().heartbeats.at(0).late; };

  workers.on_page = Told(2);
  loop.GoTo(begin + 1s);
  EXPECT_EQ(driver.state().heartbeats.at(0).step, 2U);
  EXPECT_FALSE(late());
  loop.GoTo(begin + 1'999ms);
  EXPECT_FALSE(late());
  loop.GoTo(begin + 2s);
  EXPECT_TRUE(late());
}

}  // namespace
}  // namespace ddprun

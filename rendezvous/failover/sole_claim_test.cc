#include "rendezvous/failover/sole_claim.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "rendezvous/core/failover/serving.h"
#include "rendezvous/testing/driver_testing.h"
#include "rendezvous/testing/pump.h"

namespace ddprun {
namespace {

// In memory; the disk may be full.
class OneClaim final : public Claims {
 public:
  Result<std::optional<Claim>> Newest() override { return Get(); }
  Result<Claim> Make(const Claim& claim) override {
    Set(claim);
    return claim;
  }
  Result<bool> Move(const Claim& claim) override {
    hangs.wait(true);
    if (full) {
      return Error{ErrorKind::kSystem, "No space left on device"};
    }
    Set(claim);
    return false;
  }
  Result<void> Announce(const Endpoint& /*endpoint*/, const std::string& /*token*/) override {
    return {};
  }
  std::string Where() const override { return "the state directory"; }

  std::optional<Claim> Get() const {
    const std::lock_guard lock(mutex_);
    return newest_;
  }
  void Answer() {
    hangs = false;
    hangs.notify_all();
  }
  std::atomic<bool> full = false;
  std::atomic<bool> hangs = false;

 private:
  void Set(const Claim& claim) {
    const std::lock_guard lock(mutex_);
    newest_ = claim;
  }
  mutable std::mutex mutex_;
  std::optional<Claim> newest_;
};

// One server of several in a row, whose runs have one node.
struct Server {
  Server(AsioLoop& loop, const std::shared_ptr<OneClaim>& claims, Term clock)
      : take(*SoleClaim::Next(*claims)),
        driver(loop, {.term = NewClaim(take, clock, {"n0", 1}).term}),
        claim(loop, claims, driver) {
    EXPECT_TRUE(claim.Take(take, {"n0", 1}));
  }
  std::shared_ptr<AskedSync> Tell(NodeReport report) {
    const auto asked = std::make_shared<AskedSync>();
    driver.OnReport(std::move(report), asked);
    return asked;
  }

  TakeClaim take;
  CoordinatorDriver driver;
  SoleClaim claim;
};

NodeReport Worker() {
  return FirstReportOf("n1", {.min_nodes = 1, .max_nodes = 1});
}

bool IsTheEnd(const AskedSync& asked) {
  return asked.told && std::holds_alternative<Finish>(asked.told->directive);
}

// The report of a node whose workers have succeeded.
NodeReport Succeeded(Server& server) {
  const auto begun = server.Tell(Worker());
  EXPECT_TRUE(begun->told && std::holds_alternative<ddprun::Run>(begun->told->directive));
  NodeReport ended = Worker();
  ended.sequence = 2;
  ended.term = server.driver.config().term;
  ended.echo = Wait{};
  ended.placement = std::get<ddprun::Run>(begun->told->directive).placement;
  ended.floor = ended.placement->generation;
  ended.outcome = Outcome::kSucceeded;
  return ended;
}

// Asked again and again, the server tells it how the run has ended, but not at once.
bool HearsTheEnd(AsioLoop& loop, Server& server, NodeReport report) {
  auto asked = server.Tell(report);
  EXPECT_FALSE(IsTheEnd(*asked)) << "the claim does not have it yet";
  return PumpUntil(loop, [&] {
    if (!IsTheEnd(*asked) && asked->told) {
      ++report.sequence;
      asked = server.Tell(report);
    }
    return IsTheEnd(*asked);
  });
}

TEST(SoleClaim, IsAboveTheLastOnesTermThoughTheClockWentBack) {
  AsioLoop loop;
  const auto claims = std::make_shared<OneClaim>();
  const Server first(loop, claims, {2'000});
  EXPECT_FALSE(first.take.takes_over);
  const Server second(loop, claims, {100});
  EXPECT_TRUE(second.take.takes_over);
  EXPECT_GT(second.driver.config().term, Term{2'000});
  EXPECT_EQ(claims->Get()->number, 2u);
  EXPECT_EQ(claims->Get()->term, second.driver.config().term);
}

// A server that takes a term after a later one is followed by none of its own term.
TEST(SoleClaim, HasTheTermThatAReportHasRaised) {
  AsioLoop loop;
  const auto claims = std::make_shared<OneClaim>();
  Server server(loop, claims, {100});
  NodeReport report = Worker();
  report.term = {5'000};
  server.Tell(report);
  EXPECT_TRUE(PumpUntil(loop, [&] { return claims->Get()->term > Term{5'000}; }));
}

// No run ended before the disk answered.
TEST(SoleClaim, WaitsForNoDiskThatIsFullOrSilent) {
  for (const bool silent : {false, true}) {
    SCOPED_TRACE(silent ? "silent" : "full");
    AsioLoop loop;
    const auto claims = std::make_shared<OneClaim>();
    Server server(loop, claims, {100});
    (silent ? claims->hangs : claims->full) = true;
    ASSERT_TRUE(HearsTheEnd(loop, server, Succeeded(server)));
    EXPECT_TRUE(claims->Get()->ended.empty());
    claims->full = false;
    claims->Answer();
    EXPECT_TRUE(PumpUntil(loop, [&] { return claims->Get()->ended.size() == 1; }));
  }
}

TEST(SoleClaim, IsOverWhenItsRunsAre) {
  AsioLoop loop;
  const auto claims = std::make_shared<OneClaim>();
  {
    Server idle(loop, claims, {100});
    idle.claim.Close();
    EXPECT_TRUE(claims->Get()->over);
  }
  {
    Server busy(loop, claims, {200});
    EXPECT_FALSE(busy.take.takes_over);
    busy.Tell(Worker());
    busy.claim.Close();
    EXPECT_TRUE(claims->Get()->closed);
    EXPECT_FALSE(claims->Get()->over);
  }
  EXPECT_TRUE(Server(loop, claims, {300}).take.takes_over);
}

}  // namespace
}  // namespace ddprun

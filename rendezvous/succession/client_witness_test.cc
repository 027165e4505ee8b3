#include "rendezvous/succession/client_witness.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "rendezvous/grpc_channel.h"
#include "rendezvous/testing/wire_fixture.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""s;

const std::vector<Endpoint> kNames{{"n1", 29400}, {"n2", 29400}, {"n3", 29400}};

// One server, which is each of the list.
class WitnessCallsTest : public WireTest {
 protected:
  void SetUp() override {
    RendezvousHandlers handlers = Handlers();
    handlers.witness = [](const WitnessRequest&) { return WitnessAnswer{}; };
    server_.emplace(loop_, handlers, AcceptorOptions{});
    endpoint_ = server_->Listen({"127.0.0.1", 0}).value();
  }
  Result<std::string> There() const { return GrpcTarget(endpoint_, Lookup::kAddressOnly); }
  Result<std::optional<Claim>> Look(WitnessClaims& claims) {
    return Beside<std::optional<Claim>>([&] { return claims.Newest(60s); });
  }
};

// Each name would else be waited for, one after the other, by who must say that he still serves.
TEST_F(WitnessCallsTest, ANameThatIsNeverFoundHoldsNobodyUp) {
  auto never = std::make_shared<std::promise<void>>();
  const std::shared_future<void> found = never->get_future();
  WitnessClaims claims(
      kNames, std::make_unique<GrpcWitnessCalls>(
                  kNames, Access{}, nullptr,
                  [found, there = There()](const Endpoint& endpoint) -> Result<std::string> {
                    if (endpoint.host == "n1") {
                      found.wait();
                    }
                    return there;
                  }));
  for (int i = 0; i < 3; ++i) {
    const auto newest = Look(claims);
    EXPECT_TRUE(newest) << newest.error().message;
  }
  never->set_value();
}

TEST_F(WitnessCallsTest, WhoseNameHasAnotherAddressNowIsFoundThere) {
  const Endpoint gone = [this] {
    RendezvousServer other(loop_, Handlers(), AcceptorOptions{});
    return other.Listen({"127.0.0.1", 0}).value();
  }();
  const auto looks = std::make_shared<std::atomic<int>>(0);
  WitnessClaims claims(
      kNames, std::make_unique<GrpcWitnessCalls>(
                  kNames, Access{}, nullptr,
                  [looks, there = There(), before = GrpcTarget(gone, Lookup::kAddressOnly)](
                      const Endpoint&) { return ++*looks <= 3 ? before : there; }));
  EXPECT_FALSE(Look(claims));
  while (!Look(claims)) {  // Whoever does not look again is never here again.
  }
  EXPECT_GT(*looks, 3);
}

TEST_F(WitnessCallsTest, ANameThatWasNotFoundIsLookedUpAgain) {
  const auto looks = std::make_shared<std::atomic<int>>(0);
  WitnessClaims claims(
      kNames, std::make_unique<GrpcWitnessCalls>(
                  kNames, Access{}, nullptr, [looks, there = There()](const Endpoint&) {
                    return ++*looks <= 3 ? Error{ErrorKind::kUnavailable, "no such name"} : there;
                  }));
  const auto newest = Look(claims);
  ASSERT_FALSE(newest);
  EXPECT_NE(newest.error().message.find("no such name"), std::string::npos);
  EXPECT_TRUE(Look(claims));
}

}  // namespace
}  // namespace ddprun

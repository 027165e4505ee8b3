// A server's end of the road: calls of nodes and of operators, parked and answered.
#include "rendezvous/road/errand_road.h"

#include <gtest/gtest.h>

#include "rendezvous/testing/driver_testing.h"

namespace ddprun {
namespace {

const std::string kToken = "a token that nobody guesses";

template <class Reply>
struct Parked final : PendingCall<Reply> {
  Parked() : PendingCall<Reply>(std::make_shared<char>()) {}
  void Answer(const Reply& reply) override { told = reply; }
  void Refuse(const Error& error) override { refused = error; }
  std::optional<Reply> told;
  std::optional<Error> refused;
};
using ParkedRoad = Parked<RoadReply>;
using ParkedAsk = Parked<AskReply>;

struct Roads : DriverTest {
  CoordinatorDriver driver{loop, CoordinatorConfig{.term = {7}}};
  RendezvousHandlers handlers = driver.Handlers();
  std::uint64_t call = 0;

  Roads() { driver.SetToken(kToken); }
  void Joins() {
    handlers.sync(FirstReportOf("n0", {.min_nodes = 2, .max_nodes = 2}),
                  std::make_shared<AskedSync>());
  }
  std::shared_ptr<ParkedRoad> Parks(std::uint64_t edition, std::optional<ErrandPiece> piece = {},
                                    Incarnation incarnation = {1}) {
    const auto parked = std::make_shared<ParkedRoad>();
    handlers.road({"run", "n0", incarnation, edition, std::move(piece)}, parked);
    return parked;
  }
  std::shared_ptr<ParkedAsk> Asks(const std::vector<TakenPiece>& taken = {},
                                  const std::string& token = kToken,
                                  const std::vector<NodeId>& nodes = {}) {
    const auto parked = std::make_shared<ParkedAsk>();
    handlers.ask({"run", 5, ++call, token, {}, nodes, taken}, parked);
    return parked;
  }
};

// No world is needed for it, and none is there: one node of two.
TEST_F(Roads, AnErrandGoesToTheNodeAndComesBack) {
  OnLoop([&] {
    Joins();
    const auto first = Parks(0);
    ASSERT_TRUE(first->told);
    const auto parked = Parks(first->told->edition);
    EXPECT_FALSE(parked->told);
    const auto asked = Asks();
    ASSERT_TRUE(asked->told);
    EXPECT_EQ(asked->told->asked, std::vector<NodeId>{"n0"});
    ASSERT_TRUE(parked->told);
    ASSERT_EQ(parked->told->errands.size(), 1u);
    const std::uint64_t id = parked->told->errands[0].id;
    EXPECT_GT(id, std::uint64_t{7} << 16);
    const auto waits = Asks();
    EXPECT_FALSE(waits->told);
    EXPECT_TRUE(Parks(0, ErrandPiece{id, 1, "bytes", true})->told);
    ASSERT_TRUE(waits->told);
    ASSERT_EQ(waits->told->pieces.size(), 1u);
    EXPECT_EQ(waits->told->pieces[0].piece.bytes, "bytes");
  });
}

TEST_F(Roads, WhoHasNoTokenAsksNothing) {
  OnLoop([&] {
    Joins();
    const std::uint64_t edition = Parks(0)->told->edition;
    const auto parked = Parks(edition);
    for (const std::string& token : {std::string(), std::string("another token of some length")}) {
      const auto asked = Asks({}, token);
      ASSERT_TRUE(asked->refused);
      EXPECT_EQ(asked->refused->kind, ErrorKind::kRefused);
    }
    EXPECT_FALSE(parked->told);
  });
}

TEST_F(Roads, AMembershipThatHasNotReportedHasNoRoad) {
  OnLoop([&] {
    EXPECT_TRUE(Parks(0)->refused);
    Joins();
    EXPECT_TRUE(Parks(0, {}, {2})->refused);
    EXPECT_TRUE(Parks(0)->told);
  });
}

TEST_F(Roads, ANodeThatTheRunDoesNotHaveIsNamed) {
  OnLoop([&] {
    Joins();
    const auto asked = Asks({}, kToken, {"n0", "n9"});
    ASSERT_TRUE(asked->refused);
    EXPECT_NE(asked->refused->message.find("no node 'n9'"), std::string::npos);
  });
}

// The node ends what nobody waits for.
TEST_F(Roads, AnOperatorWhoGoesTakesTheErrandAlong) {
  OnLoop([&] {
    Joins();
    const std::uint64_t edition = Parks(0)->told->edition;
    const auto parked = Parks(edition);
    (void)Asks();
    const auto waits = Asks();
    const auto again = Parks(parked->told->edition);
    EXPECT_FALSE(again->told);
    handlers.gone(waits->key());
    ASSERT_TRUE(again->told);
    EXPECT_TRUE(again->told->errands.empty());
    EXPECT_TRUE(Asks()->refused);  // Call 3 of an errand that is forgotten.
  });
}

TEST_F(Roads, TwoOperatorsAtOnceHearTheirOwn) {
  OnLoop([&] {
    Joins();
    (void)Parks(0);
    (void)Asks();
    const auto one = Asks();
    call = 0;
    const auto other_first = std::make_shared<ParkedAsk>();
    handlers.ask({"run", 6, 1, kToken, {.kind = ErrandKind::kStacks}, {}, {}}, other_first);
    const auto other = std::make_shared<ParkedAsk>();
    handlers.ask({"run", 6, 2, kToken, {}, {}, {}}, other);
    const RoadReply list = *Parks(0)->told;
    ASSERT_EQ(list.errands.size(), 2u);
    EXPECT_EQ(list.errands[1].wish.kind, ErrandKind::kStacks);
    (void)Parks(0, ErrandPiece{list.errands[1].id, 1, "stacks", true});
    EXPECT_FALSE(one->told);
    ASSERT_TRUE(other->told);
    EXPECT_EQ(other->told->pieces.at(0).piece.bytes, "stacks");
  });
}

TEST_F(Roads, AServerThatRetiresRefusesAllThatIsParked) {
  OnLoop([&] {
    Joins();
    const std::uint64_t edition = Parks(0)->told->edition;
    auto parked = Parks(edition);
    (void)Asks();
    auto waits = Asks();
    std::weak_ptr<ParkedAsk> held = waits;
    waits.reset();
    driver.Retire();
    EXPECT_TRUE(held.expired());
    handlers.gone(nullptr);
  });
}

}  // namespace
}  // namespace ddprun

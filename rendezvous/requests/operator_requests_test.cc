// A server's side of operators' requests: streams of nodes and of operators, and what is relayed.
#include "rendezvous/requests/operator_requests.h"

#include <gtest/gtest.h>

#include "rendezvous/testing/driver_testing.h"
#include "rendezvous/testing/stream_testing.h"
#include "tests/support/instant_loop.h"

namespace ddprun {
namespace {

const std::string kToken = "a token that nobody guesses";

struct Requests : testing::Test {
  InstantLoop loop;
  std::set<std::uint64_t> members{1};
  OperatorRequests requests{
      loop, [this](const Membership& name) { return members.contains(name.incarnation.value); }};

  std::shared_ptr<NodeLog> Opens(const NodeId& node = "n0", std::uint64_t incarnation = 1) {
    auto log = std::make_shared<NodeLog>();
    requests.OnNode({"run", node, {incarnation}}, StreamTo(log));
    return log;
  }
  std::shared_ptr<OperatorLog> Asks(const std::vector<NodeId>& nodes = {"n0"},
                                    const RequestSpec& spec = {}, bool grows = false) {
    auto log = std::make_shared<OperatorLog>();
    requests.OnOperator("run", spec, nodes, StreamTo(log), grows);
    return log;
  }
  void Later(Duration time) { loop.GoTo(loop.Now() + time); }
};

TEST_F(Requests, EachPieceIsMadeOnlyWhenTheOperatorWantsIt) {
  const auto node = Opens();
  const auto asked = Asks({"n0"}, {.kind = RequestKind::kStacks});
  ASSERT_EQ(asked->sent.size(), 1u);
  EXPECT_EQ(asked->sent[0].asked, std::vector<NodeId>{"n0"});
  ASSERT_EQ(node->sent.size(), 1u);
  EXPECT_EQ(node->sent[0].spec.kind, RequestKind::kStacks);
  EXPECT_EQ(node->sent[0].piece_bytes, kMaxPieceBytes);
  const std::uint64_t number = node->sent[0].request;
  node->Say({number, "one"});
  ASSERT_EQ(asked->sent.size(), 2u);
  EXPECT_EQ(asked->sent[1], (AskReply{{}, "n0", {number, "one"}}));
  EXPECT_EQ(node->sent.size(), 1u);
  asked->Say("n0");
  asked->Say("n0");  // Is owed already.
  ASSERT_EQ(node->sent.size(), 2u);
  node->Say({number, "two", true});
  EXPECT_EQ(asked->sent.back().piece.bytes, "two");
  EXPECT_TRUE(node->sent.back().over);
  asked->Say("n0");  // Has no more.
  EXPECT_EQ(node->sent.size(), 3u);
  EXPECT_TRUE(asked->open);
  EXPECT_TRUE(requests.asked());
  asked->Break();
  EXPECT_FALSE(requests.asked());
  EXPECT_EQ(node->sent.size(), 3u);
}

TEST_F(Requests, ANodeWithoutAStreamIsRefused) {
  const auto asked = Asks({"n0", "n1"});
  const auto node = Opens();
  Later(OperatorRequests::kNoStream);
  ASSERT_EQ(asked->sent.size(), 2u);
  EXPECT_EQ(asked->sent[1].node, "n1");
  EXPECT_TRUE(asked->sent[1].piece.last);
  EXPECT_NE(asked->sent[1].piece.refusal, "");
}

TEST_F(Requests, ANodeThatIsCutOffOrComesAgainIsRefused) {
  const auto node = Opens();
  const auto one = Asks();
  node->Break();
  EXPECT_EQ(one->sent.back().piece.refusal, "it is cut off or has ended");
  const auto second = Opens();
  const auto other = Asks();
  members = {2};
  const auto again = Opens("n0", 2);
  EXPECT_FALSE(second->open);
  EXPECT_EQ(other->sent.back().piece.refusal, "it was lost and has joined again");
  EXPECT_TRUE(again->sent.empty());
}

TEST_F(Requests, AFollowerOfAllNodesFollowsThoseThatComeLater) {
  const auto named = Asks({}, {.follow = true});
  const auto all = Asks({}, {.follow = true}, /*grows=*/true);
  const auto node = Opens("n1");
  ASSERT_EQ(node->sent.size(), 1u);
  const std::uint64_t number = node->sent[0].request;
  node->Say({number, "one", true});
  EXPECT_EQ(all->sent.back(), (AskReply{{}, "n1", {number, "one", true}}));
  EXPECT_EQ(Opens("n1")->sent.size(), 1u) << "it has begun again";
  EXPECT_EQ(named->sent.size(), 1u);
}

// A node decides nothing of what the server keeps.
TEST_F(Requests, APieceThatIsUnaskedOrTooLargeEndsTheNodesPart) {
  const auto node = Opens();
  const auto one = Asks();
  node->Say({1, std::string(kMaxPieceBytes + 1, 'x')});
  EXPECT_NE(one->sent.back().piece.refusal.find("too large"), std::string::npos);
  EXPECT_TRUE(node->sent.back().over);
  const auto other = Asks();
  node->Say({2, "one"});
  node->Say({2, "two"});
  EXPECT_TRUE(other->sent.back().piece.last);
  EXPECT_EQ(other->sent.size(), 3u);
  node->Say({2, "three"});
  node->Say({77, "of nothing"});
  EXPECT_EQ(other->sent.size(), 3u);
}

TEST_F(Requests, AreBoundedForARunAndForAServer) {
  std::vector<std::shared_ptr<OperatorLog>> asked;
  for (std::size_t i = 0; i < kMostAsks; ++i) {
    asked.push_back(Asks());
    EXPECT_FALSE(asked.back()->refused);
  }
  EXPECT_TRUE(Asks()->refused);
  asked.front()->Break();
  EXPECT_FALSE(Asks()->refused);
  std::vector<NodeId> many;
  for (int i = 0; i < 20'000; ++i) {
    many.push_back("n" + std::to_string(i));
  }
  asked.back()->Break();
  EXPECT_TRUE(Asks(many)->refused);
}

// A verb that is stopped keeps its stream open.
TEST_F(Requests, AnOperatorWhoUsesNoPieceGivesItsPlaceToAnother) {
  const auto node = Opens();
  std::vector<std::shared_ptr<OperatorLog>> asked;
  for (std::size_t i = 0; i < kMostAsks; ++i) {
    asked.push_back(Asks());
  }
  node->Say({3, "output"});
  Later(OperatorRequests::kUnread - Duration{1});
  EXPECT_TRUE(Asks()->refused);
  Later(Duration{1});
  EXPECT_FALSE(Asks()->refused);
  EXPECT_FALSE(asked[2]->open);  // The others wait for the node.
  EXPECT_TRUE(asked[0]->open && asked[1]->open && asked[7]->open);
  EXPECT_TRUE(Asks()->refused);
  EXPECT_FALSE(Asks({"n0"}, {.follow = true})->refused);  // Has a place apart.
}

TEST_F(Requests, TheServersOwnNeedsNoReaderAndEnds) {
  const auto node = Opens();
  requests.Send("run", {.kind = RequestKind::kEvidence}, {"n0"});
  EXPECT_FALSE(requests.asked());
  ASSERT_EQ(node->sent.size(), 1u);
  node->Say({1, "one"});
  ASSERT_EQ(node->sent.size(), 2u);
  node->Say({1, "two", true});
  EXPECT_TRUE(node->sent.back().over);
  requests.Send("run", {.kind = RequestKind::kEvidence}, {"n0"});
  Later(OperatorRequests::kOfOwn);
  EXPECT_TRUE(node->sent.back().over);
  EXPECT_EQ(node->sent.back().request, 2u);
  for (std::size_t i = 0; i < 2 * kMostAsks; ++i) {
    requests.Send("run", {.kind = RequestKind::kEvidence}, {"n0"});
  }
  EXPECT_EQ(node->sent.back().request, 2 + kMostAsks);
}

TEST_F(Requests, OfARunThatIsForgottenEnd) {
  const auto node = Opens();
  const auto asked = Asks();
  requests.ForgetRun("run");
  EXPECT_FALSE(node->open || asked->open);
}

// ---- Who may ----
struct OperatorsOfADriver : DriverTest {
  CoordinatorDriver driver{loop, CoordinatorConfig{.term = {7}}};
  RendezvousHandlers handlers = driver.Handlers();

  OperatorsOfADriver() { driver.SetToken(kToken); }
  void Joins() {
    handlers.sync(FirstReportOf("n0", {.min_nodes = 2, .max_nodes = 2}),
                  std::make_shared<AskedSync>());
  }
  std::shared_ptr<OperatorLog> Asks(const std::string& token,
                                    const std::vector<NodeId>& nodes = {}) {
    auto log = std::make_shared<OperatorLog>();
    handlers.ask({"run", token, {}, nodes}, StreamTo(log));
    return log;
  }
};

// No world is needed for it, and none is there: one node of two.
TEST_F(OperatorsOfADriver, AskTheNodesThatHaveReported) {
  OnLoop([&] {
    const auto early = std::make_shared<NodeLog>();
    handlers.observe({"run", "n0", {1}}, StreamTo(early));
    EXPECT_TRUE(early->refused);
    EXPECT_FALSE(early->open);
    Joins();
    const auto node = std::make_shared<NodeLog>();
    handlers.observe({"run", "n0", {1}}, StreamTo(node));
    const auto asked = Asks(kToken);
    EXPECT_EQ(asked->sent.at(0).asked, std::vector<NodeId>{"n0"});
    EXPECT_EQ(node->sent.size(), 1u);
    const auto unknown = Asks(kToken, {"n0", "n9"});
    ASSERT_TRUE(unknown->refused);
    EXPECT_NE(unknown->refused->message.find("no node 'n9'"), std::string::npos);
  });
}

TEST_F(OperatorsOfADriver, NeedTheToken) {
  OnLoop([&] {
    Joins();
    for (const std::string& token : {std::string(), std::string("another token of some length")}) {
      const auto asked = Asks(token);
      ASSERT_TRUE(asked->refused);
      EXPECT_EQ(asked->refused->kind, ErrorKind::kRefused);
      EXPECT_FALSE(asked->open);
    }
  });
}

TEST_F(OperatorsOfADriver, AreEndedByAServerThatRetires) {
  OnLoop([&] {
    Joins();
    const auto asked = Asks(kToken);
    EXPECT_TRUE(asked->open);
    driver.Retire();
    EXPECT_FALSE(asked->open);
  });
}

}  // namespace
}  // namespace ddprun

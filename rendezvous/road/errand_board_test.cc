#include "rendezvous/road/errand_board.h"

#include <gtest/gtest.h>

#include "common/result_testing.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""s;

Time At(std::chrono::microseconds since) {
  return Time(since);
}

// A run of some nodes, one operator, and what they hear.
struct Board : testing::Test {
  ErrandBoard board{100};
  std::uint64_t call = 0;

  RoadCall From(const NodeId& node, std::uint64_t edition) {
    return {"run", node, {node == "n0" ? 10u : 11u}, edition, {}};
  }
  // What a node with this edition is told.
  RoadReply Parks(const NodeId& node, std::uint64_t edition, Time now) {
    board.OnRoadCall(From(node, edition), now);
    return board.ReplyTo({"run", node}, edition, now).value_or(RoadReply{});
  }
  RoadReply Brings(const NodeId& node, const ErrandPiece& piece, Time now) {
    RoadCall brought = From(node, 0);
    brought.piece = piece;
    board.OnRoadCall(brought, now);
    return board.ReplyTo({"run", node}, 0, now).value();
  }
  Result<void> Asks(const std::vector<NodeId>& nodes, Time now,
                    const std::vector<TakenPiece>& taken = {}, std::uint64_t ask = 1) {
    return board.OnAsk({"run", ask, ++call, "", {.follow = true}, nodes, taken}, nodes, now);
  }
  AskReply Hears(Time now, std::uint64_t ask = 1) {
    return board.AnswerTo(ask, now).value_or(AskReply{});
  }
};

TEST_F(Board, AnErrandGoesOutAndItsPiecesComeOneByOne) {
  const RoadReply nothing = Parks("n0", 0, At(0s));
  EXPECT_TRUE(nothing.errands.empty());
  ASSERT_TRUE(Asks({"n0"}, At(1s)));
  EXPECT_EQ(Hears(At(1s)).asked, std::vector<NodeId>{"n0"});
  const RoadReply given = Parks("n0", nothing.edition, At(1s));
  ASSERT_EQ(given.errands.size(), 1u);
  EXPECT_EQ(given.errands[0].id, 101u);
  EXPECT_EQ(given.errands[0].piece_bytes, kMaxPieceBytes);
  EXPECT_TRUE(given.errands[0].wish.follow);

  Brings("n0", {101, 1, "one", false}, At(2s));
  Brings("n0", {101, 2, "two", false}, At(2s));  // The first one was not taken: dropped.
  Brings("n0", {101, 1, "one", false}, At(2s));  // Sent again: taken once.
  const AskReply first = Hears(At(2s));
  ASSERT_EQ(first.pieces.size(), 1u);
  EXPECT_EQ(first.pieces[0].piece.bytes, "one");
  EXPECT_TRUE(Hears(At(2s)).pieces.empty());

  ASSERT_TRUE(Asks({}, At(3s), {{"n0", 1}}));
  const RoadReply taken = Parks("n0", given.edition, At(3s));
  ASSERT_EQ(taken.errands.size(), 1u);
  EXPECT_EQ(taken.errands[0].taken, 1u);
  const RoadReply over = Brings("n0", {101, 2, "two", true}, At(4s));
  EXPECT_TRUE(over.errands.empty());
  const AskReply last = Hears(At(4s));
  ASSERT_EQ(last.pieces.size(), 1u);
  EXPECT_TRUE(last.pieces[0].piece.last);
  EXPECT_FALSE(board.Knows(1));
  board.OnTime(At(5s));
  EXPECT_FALSE(board.NextWake());
}

// A member may say what it likes: nothing of it reaches somebody who did not ask for it.
TEST_F(Board, APieceThatNobodyAskedForIsDropped) {
  Parks("n0", 0, At(0s));
  Parks("n1", 0, At(0s));
  Brings("n0", {101, 1, "early", true}, At(0s));
  ASSERT_TRUE(Asks({"n0"}, At(0s)));
  (void)Hears(At(0s));
  Brings("n1", {101, 1, "another's", true}, At(0s));
  Brings("n0", {999, 1, "made up", true}, At(0s));
  Brings("n0", {101, 0, "before", true}, At(0s));
  EXPECT_TRUE(Hears(At(1s)).pieces.empty());
  Brings("n0", {101, 1, std::string(kMaxPieceBytes + 1, 'x'), false}, At(1s));
  const AskReply refused = Hears(At(1s));
  ASSERT_EQ(refused.pieces.size(), 1u);
  EXPECT_TRUE(refused.pieces[0].piece.bytes.empty());
  EXPECT_NE(refused.pieces[0].piece.refusal.find("larger"), std::string::npos);
}

TEST_F(Board, ANodeWithoutARoadIsNamedAndHoldsUpNobody) {
  Parks("n1", 0, At(0s));
  ASSERT_TRUE(Asks({"n0", "n1"}, At(1s)));
  (void)Hears(At(1s));
  board.OnTime(At(5s));
  EXPECT_TRUE(Hears(At(2s)).pieces.empty());
  ASSERT_TRUE(Asks({}, At(5s)));
  board.OnTime(At(6s));
  const AskReply told = Hears(At(6s));
  ASSERT_EQ(told.pieces.size(), 2u);  // n1's call was answered, and none has come after it.
  EXPECT_EQ(told.pieces[0].node, "n0");
  EXPECT_NE(told.pieces[0].piece.refusal.find("no road"), std::string::npos);
}

TEST_F(Board, ANodeThatIsParkedMayTakeItsTime) {
  const RoadReply given = [&] {
    (void)Asks({"n0"}, At(0s));
    (void)Hears(At(0s));
    return Parks("n0", 0, At(0s));
  }();
  board.OnRoadCall(From("n0", given.edition), At(0s));
  for (int second = 1; second < 100; ++second) {
    ASSERT_TRUE(Asks({}, At(std::chrono::seconds(second))));
    board.OnTime(At(std::chrono::seconds(second)));
  }
  EXPECT_TRUE(Hears(At(99s)).pieces.empty());
  board.OnRoadClosed({"run", "n0", {10}}, At(99s));
  board.OnTime(At(104s));
  const AskReply told = Hears(At(104s));
  ASSERT_EQ(told.pieces.size(), 1u);
  EXPECT_EQ(told.pieces[0].piece.refusal, "it is cut off, or gone");
}

// What an earlier membership was to do is no errand of the next one's.
TEST_F(Board, AnotherMembershipEndsTheErrand) {
  (void)Asks({"n0"}, At(0s));
  (void)Hears(At(0s));
  const RoadReply given = Parks("n0", 0, At(0s));
  board.OnRoadCall(From("n0", given.edition), At(0s));
  RoadCall again = From("n0", 0);
  again.incarnation = {77};
  board.OnRoadCall(again, At(1s));
  EXPECT_TRUE(board.ReplyTo({"run", "n0"}, 0, At(1s)).value().errands.empty());
  EXPECT_NE(Hears(At(1s)).pieces.at(0).piece.refusal.find("come again"), std::string::npos);
}

// Its piece and its errands go with an operator who has gone.
TEST_F(Board, WhoStopsAskingIsForgotten) {
  (void)Asks({"n0"}, At(0s));
  (void)Hears(At(0s));
  const RoadReply given = Parks("n0", 0, At(0s));
  Brings("n0", {101, 1, "one", false}, At(1s));
  board.OnTime(At(9s));
  EXPECT_TRUE(board.Knows(1));
  board.OnTime(At(11s));
  EXPECT_FALSE(board.Knows(1));
  EXPECT_TRUE(Parks("n0", given.edition, At(11s)).errands.empty());
  EXPECT_EQ(Asks({"n0"}, At(12s)).error().kind, ErrorKind::kNotFound);  // It is no first call.
}

// A server that was stopped for a while finds his call where it was.
TEST_F(Board, WhoseCallWaitsIsNotForgottenHoweverLateItIs) {
  (void)Asks({"n0"}, At(0s));
  (void)Hears(At(0s));
  board.OnRoadCall(From("n0", Parks("n0", 0, At(0s)).edition), At(0s));
  (void)Asks({"n0"}, At(0s));
  board.OnTime(At(60s));
  ASSERT_TRUE(board.Knows(1));
  EXPECT_TRUE(board.AnswerTo(1, At(60s)));
  board.OnTime(At(69s));
  EXPECT_TRUE(board.Knows(1));
  board.OnTime(At(70s));
  EXPECT_FALSE(board.Knows(1));
}

TEST_F(Board, AnIdleCallIsAnsweredAfterAWhile) {
  (void)Asks({"n0"}, At(0s));
  EXPECT_TRUE(board.AnswerTo(1, At(0s)));  // Who was asked.
  EXPECT_FALSE(board.AnswerTo(1, At(1s)));
  EXPECT_TRUE(board.AnswerTo(1, At(2s)));
}

TEST_F(Board, OperatorsAndBytesAreBounded) {
  for (std::uint64_t ask = 1; ask <= kMostAsks; ++ask) {
    call = 0;
    ASSERT_TRUE(Asks({"n0"}, At(0s), {}, ask));
  }
  call = 0;
  EXPECT_TRUE(Fails(Asks({"n0"}, At(0s), {}, 99), "8 others"));
  call = 0;
  std::vector<NodeId> all;
  for (int i = 0; i < 20'000; ++i) {
    all.push_back("n" + std::to_string(i));
  }
  EXPECT_TRUE(Fails(board.OnAsk({"other", 50, 1, "", {}, {}, {}}, all, At(0s)), "--node"));
  all.resize(1'000);
  EXPECT_TRUE(board.OnAsk({"other", 51, 1, "", {}, {}, {}}, all, At(0s)));
  board.OnRoadCall({"other", "n5", {1}, 0, {}}, At(0s));
  EXPECT_LE(board.ReplyTo({"other", "n5"}, 0, At(0s)).value().errands.at(0).piece_bytes,
            kMostPieceBytesOfAsk / 1'000);
}

TEST_F(Board, ARunThatIsForgottenLeavesNothing) {
  (void)Asks({"n0", "n1"}, At(0s));
  Parks("n0", 0, At(0s));
  board.ForgetRun("run");
  EXPECT_FALSE(board.Knows(1));
  EXPECT_FALSE(board.ReplyTo({"run", "n0"}, 0, At(0s)));
}

// What a server itself sends is carried like any errand, and holds nobody's answer, nor the server.
TEST_F(Board, WhatTheOwnerSendsIsTakenAndDropped) {
  const RoadReply nothing = Parks("n0", 0, At(0s));
  Parks("n1", 0, At(0s));
  board.Send("run", {.kind = ErrandKind::kEvidence}, {"n0", "n1"}, At(0s));
  EXPECT_FALSE(board.asked());
  const RoadReply given = Parks("n0", nothing.edition, At(1s));
  ASSERT_EQ(given.errands.size(), 1u);
  EXPECT_EQ(given.errands[0].wish.kind, ErrandKind::kEvidence);

  const RoadReply taken = Brings("n0", {101, 1, "one", false}, At(1s));
  ASSERT_EQ(taken.errands.size(), 1u);
  EXPECT_EQ(taken.errands[0].taken, 1u);
  EXPECT_TRUE(Brings("n0", {101, 2, "two", true}, At(1s)).errands.empty());
  // Whoever guesses its number is nobody's operator.
  EXPECT_FALSE(board.OnAsk({"run", ~std::uint64_t{0}, 2, "", {}, {}, {}}, {}, At(1s)));

  Brings("n1", {102, 1, "", true}, At(2s));
  board.OnTime(At(3s));
  EXPECT_FALSE(board.NextWake());
}

TEST_F(Board, WhatTheOwnerSendsIsForgottenInTime) {
  Parks("n0", 0, At(0s));
  board.Send("run", {.kind = ErrandKind::kEvidence}, {"n0"}, At(0s));
  EXPECT_EQ(Parks("n0", 0, At(58s)).errands.size(), 1u);
  board.OnTime(At(59s));
  EXPECT_EQ(Parks("n0", 0, At(59s)).errands.size(), 1u);
  board.OnTime(At(60s));
  EXPECT_FALSE(board.NextWake());
  EXPECT_TRUE(Parks("n0", 0, At(61s)).errands.empty());
}

// The node holds an edition of a time that is forgotten here: two errands later it must not look
// new.
TEST_F(Board, AnEditionIsNeverUsedTwice) {
  const RoadReply nothing = Parks("n0", 0, At(0s));
  ASSERT_TRUE(Asks({"n0"}, At(0s)));
  Hears(At(0s));
  const RoadReply given = Parks("n0", nothing.edition, At(0s));
  const RoadReply over = Brings("n0", {given.errands[0].id, 1, "all", true}, At(0s));
  Hears(At(0s));
  ASSERT_FALSE(board.Knows(1));
  for (std::uint64_t ask = 2; ask < 5; ++ask) {
    call = 0;
    ASSERT_TRUE(Asks({"n0"}, At(0s), {}, ask));
    board.OnRoadCall(From("n0", over.edition), At(0s));
    const auto reply = board.ReplyTo({"run", "n0"}, over.edition, At(0s));
    ASSERT_TRUE(reply) << ask;
    EXPECT_EQ(reply->errands.size(), ask - 1);
  }
}

TEST_F(Board, WhatTheOwnerSendsTakesNoOperatorsPlaceNorNeedsOne) {
  Parks("n0", 0, At(0s));
  for (std::uint64_t ask = 1; ask <= kMostAsks; ++ask) {
    board.Send("run", {.kind = ErrandKind::kEvidence}, {"n0"}, At(0s));
    call = 0;
    ASSERT_TRUE(Asks({"n0"}, At(0s), {}, ask)) << ask;
  }
  board.Send("run", {.kind = ErrandKind::kEvidence}, {"n0"}, At(0s));  // Of these too so many.
  EXPECT_EQ(Parks("n0", 0, At(0s)).errands.size(), 2 * kMostAsks);
}

}  // namespace
}  // namespace ddprun

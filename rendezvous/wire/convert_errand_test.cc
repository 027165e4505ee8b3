#include <gtest/gtest.h>

#include "rendezvous/wire/convert.h"

namespace ddprun {
namespace {

const ErrandWish kWish{ErrandKind::kStacks, {{1, 1}, {4, 9}}, Duration(5'000), true};
const ErrandPiece kPiece{7, 3, std::string("a\0b", 3), true, "it is cut off"};

TEST(WireErrands, CrossAsTheyAre) {
  const RoadCall call{"run", "n0", {9}, 4, kPiece};
  v1::RoadRequest road;
  ToProto(call, &road);
  EXPECT_EQ(RoadCallFromProto(road).value(), call);

  const RoadReply reply{5, {{7, kWish, 4'096, 2}}};
  v1::RoadReply told;
  ToProto(reply, &told);
  EXPECT_EQ(RoadReplyFromProto(told).value(), reply);

  const Asking asking{"", 12, 2, "token", kWish, {"n0", "n1"}, {{"n1", 6}}, Duration(150)};
  v1::AskRequest ask;
  ToProto(asking, &ask);
  EXPECT_EQ(AskingFromProto(ask).value(), asking);

  const AskReply answer{{"n0"}, {{"n0", kPiece}}};
  v1::AskReply answered;
  ToProto(answer, &answered);
  EXPECT_EQ(AskReplyFromProto(answered).value(), answer);
}

template <class Spoil>
std::string RefusalOfCall(Spoil spoil) {
  v1::RoadRequest wire;
  ToProto(RoadCall{"run", "n0", {9}, 4, kPiece}, &wire);
  spoil(wire);
  const auto read = RoadCallFromProto(wire);
  return read ? "accepted" : read.error().message;
}

// No byte of a stranger's is trusted.
TEST(WireErrands, WhatCannotBeIsRefusedByField) {
  EXPECT_EQ(RefusalOfCall([](auto& w) { w.clear_node(); }), "node is empty");
  EXPECT_EQ(RefusalOfCall([](auto& w) { w.clear_incarnation(); }), "incarnation is missing");
  EXPECT_TRUE(RefusalOfCall([](auto& w) {
                w.mutable_piece()->set_bytes(std::string(kMaxPieceBytes + 1, 'x'));
              }).starts_with("piece.bytes has"));
  EXPECT_TRUE(RefusalOfCall([](auto& w) { w.set_edition(UINT64_MAX); }).starts_with("edition"));

  v1::AskRequest ask;
  ToProto(Asking{.call = 1}, &ask);
  EXPECT_TRUE(AskingFromProto(ask));
  v1::AskRequest bad = ask;
  bad.clear_call();
  EXPECT_FALSE(AskingFromProto(bad));
  bad = ask;
  bad.mutable_wish()->set_kind(v1::ERRAND_KIND_UNSPECIFIED);
  EXPECT_FALSE(AskingFromProto(bad));
  bad = ask;
  v1::RankSpan* const span = bad.mutable_wish()->add_ranks();
  span->set_first(2);
  span->set_last(1);
  EXPECT_FALSE(AskingFromProto(bad));
  bad = ask;
  bad.set_wait_ms(3'600'000);
  EXPECT_FALSE(AskingFromProto(bad));
  bad = ask;
  for (std::size_t i = 0; i <= kMostAskedNodes; ++i) {
    bad.add_nodes("n");
  }
  EXPECT_FALSE(AskingFromProto(bad));

  v1::RoadReply reply;
  for (std::size_t i = 0; i <= kMostAsks; ++i) {
    reply.add_errands();
  }
  EXPECT_FALSE(RoadReplyFromProto(reply));
}

}  // namespace
}  // namespace ddprun

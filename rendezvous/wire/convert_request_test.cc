#include <gtest/gtest.h>

#include "rendezvous/wire/convert.h"

namespace ddprun {
namespace {

const RequestSpec kSpec{RequestKind::kStacks, {{1, 1}, {4, 9}}, Duration(5'000), true, 100};
const AnswerPiece kPiece{7, std::string("a\0b", 3), true, "it is cut off"};

TEST(WireRequests, CrossAsTheyAre) {
  v1::NodeMessage of_node;
  const Membership self{"run", "n0", {9}};
  ToProto(self, of_node.mutable_self());
  EXPECT_EQ(MembershipFromProto(of_node).value(), self);
  ToProto(kPiece, of_node.mutable_piece());
  EXPECT_EQ(PieceFromProto(of_node).value(), kPiece);

  for (const NodeCommand& command :
       {NodeCommand{7, false, kSpec, 8'192}, NodeCommand{.request = 7, .over = true}}) {
    v1::Command told;
    ToProto(command, &told);
    EXPECT_EQ(FromProto<NodeCommand>(told).value(), command);
  }

  const AskStart start{"", "token", kSpec, {"n0", "n1"}};
  v1::AskMessage ask;
  ToProto(start, ask.mutable_start());
  EXPECT_EQ(AskStartFromProto(ask).value(), start);
  ask.set_next("n1");
  EXPECT_EQ(NextFromProto(ask).value(), "n1");

  for (const AskReply& answer : {AskReply{{"n0"}, {}, {}}, AskReply{{}, "n0", kPiece}}) {
    v1::AskReply answered;
    ToProto(answer, &answered);
    EXPECT_EQ(FromProto<AskReply>(answered).value(), answer);
  }
}

template <class Spoil>
std::string RefusalOf(Spoil spoil) {
  v1::NodeMessage wire;
  ToProto(Membership{"run", "n0", {9}}, wire.mutable_self());
  ToProto(kPiece, wire.mutable_piece());
  spoil(wire);
  const auto self = MembershipFromProto(wire);
  const auto piece = PieceFromProto(wire);
  return !self ? self.error().message : !piece ? piece.error().message : "accepted";
}

// No byte of an unauthenticated peer is trusted.
TEST(WireRequests, ImpossibleValuesAreRefusedByField) {
  EXPECT_EQ(RefusalOf([](auto& w) { w.mutable_self()->clear_node(); }), "node is empty");
  EXPECT_EQ(RefusalOf([](auto& w) { w.mutable_self()->clear_incarnation(); }),
            "incarnation is missing");
  EXPECT_TRUE(RefusalOf([](auto& w) {
                w.mutable_piece()->set_bytes(std::string(kMaxPieceBytes + 1, 'x'));
              }).starts_with("piece.bytes has"));
  EXPECT_TRUE(RefusalOf([](auto& w) {
                w.mutable_piece()->set_request(UINT64_MAX);
              }).starts_with("piece.request"));

  v1::AskMessage ask;
  ToProto(AskStart{}, ask.mutable_start());
  EXPECT_TRUE(AskStartFromProto(ask));
  EXPECT_FALSE(NextFromProto(ask));
  v1::AskMessage bad = ask;
  bad.mutable_start()->mutable_spec()->set_kind(v1::REQUEST_KIND_UNSPECIFIED);
  EXPECT_FALSE(AskStartFromProto(bad));
  bad = ask;
  v1::RankSpan* const span = bad.mutable_start()->mutable_spec()->add_ranks();
  span->set_first(2);
  span->set_last(1);
  EXPECT_FALSE(AskStartFromProto(bad));
  bad = ask;
  bad.mutable_start()->mutable_spec()->set_lines(kMostLastLines + 1);
  EXPECT_FALSE(AskStartFromProto(bad));
  bad = ask;
  for (std::size_t i = 0; i <= kMostAskedNodes; ++i) {
    bad.mutable_start()->add_nodes("n");
  }
  EXPECT_FALSE(AskStartFromProto(bad));

  v1::Command command;
  ToProto(NodeCommand{.request = 1}, &command);
  EXPECT_TRUE(FromProto<NodeCommand>(command));
  command.set_piece_bytes(kMaxPieceBytes + 1);
  EXPECT_FALSE(FromProto<NodeCommand>(command));
}

}  // namespace
}  // namespace ddprun

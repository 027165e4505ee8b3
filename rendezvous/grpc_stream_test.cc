// Streams of nodes and operators over real connections.
#include <gtest/gtest.h>

#include "rendezvous/client_asks.h"
#include "rendezvous/testing/wire_fixture.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

struct Streams : WireTest {
  const Membership self{"run", "n0", {7}};
  std::vector<NodeCommand> commands;
  std::vector<AnswerPiece> pieces;
  int node_ended = 0;
  int server_heard_end = 0;

  void SetUp() override { Serve({"127.0.0.1", 0}); }
  // A node whose first report was answered.
  std::unique_ptr<SyncChannel> Joins() {
    auto channel = GrpcChannelTo(loop_, endpoint_);
    channel->Send(Report(1), 5s, Note());
    EXPECT_TRUE(UntilParked(1));
    parked_[0]->Answer(Reply(1));
    EXPECT_TRUE(UntilHeard(1));
    return channel;
  }
  std::unique_ptr<CommandStream> Opens(SyncChannel& channel) {
    std::unique_ptr<CommandStream> stream = channel.OpenCommands(self);
    EXPECT_NE(stream, nullptr);
    stream->Listen([this](const NodeCommand& command) { commands.push_back(command); },
                   [this] { ++node_ended; });
    EXPECT_TRUE(Until([&] { return node_stream_ != nullptr; }));
    EXPECT_EQ(node_self_, self);
    node_stream_->Listen([this](const AnswerPiece& piece) { pieces.push_back(piece); },
                         [this] { ++server_heard_end; });
    return stream;
  }
  // An operator asks beside the loop; the server's stream stands when it has asked.
  Result<void> Asks(const std::function<Result<void>()>& ask,
                    const std::function<void()>& on_server) {
    std::optional<Result<void>> result;
    loop_.RunBlocking([&] { result = ask(); }, [] {});
    EXPECT_TRUE(Until([&] { return operator_stream_ != nullptr; }));
    on_server();
    EXPECT_TRUE(Until([&] { return result.has_value(); }));
    return *result;
  }
};

TEST_F(Streams, CommandsGoToTheNodeAndPiecesComeBack) {
  const auto channel = Joins();
  const auto stream = Opens(*channel);
  const NodeCommand command{3, false, {.kind = RequestKind::kStacks}, 8'192};
  node_stream_->Send(command);
  ASSERT_TRUE(Until([&] { return commands.size() == 1; }));
  EXPECT_EQ(commands[0], command);
  const AnswerPiece piece{3, std::string(kMaxPieceBytes, 'x'), true, "why"};
  for (int i = 0; i < 3; ++i) {
    stream->Send(piece);
  }
  ASSERT_TRUE(Until([&] { return pieces.size() == 3; }));
  EXPECT_EQ(pieces[2], piece);
}

TEST_F(Streams, EitherEndEndsIt) {
  const auto channel = Joins();
  auto stream = Opens(*channel);
  node_stream_->End({ErrorKind::kUnavailable, "no more"});
  EXPECT_TRUE(Until([&] { return node_ended == 1; }));
  node_stream_.reset();
  stream = Opens(*channel);
  node_stream_.reset();
  EXPECT_TRUE(Until([&] { return node_ended == 2; }));
  stream = Opens(*channel);
  stream.reset();
  EXPECT_TRUE(Until([&] { return server_heard_end == 1 || !node_stream_; }));
  stream = Opens(*channel);
  server_->Shutdown();
  EXPECT_TRUE(Until([&] { return node_ended == 3; }));
}

TEST_F(Streams, AChannelMayEndBeforeItsStream) {
  auto channel = Joins();
  const auto stream = Opens(*channel);
  channel.reset();
  EXPECT_TRUE(Until([&] { return node_ended == 1; }));
  stream->Send({3, "late"});
}

TEST_F(Streams, ANodeThatWasNotAnsweredYetHasNone) {
  const auto channel = GrpcChannelTo(loop_, endpoint_);
  EXPECT_EQ(channel->OpenCommands(self), nullptr);
  channel->Send(Report(1), 5s, Note());
  ASSERT_TRUE(UntilParked(1));
  EXPECT_EQ(channel->OpenCommands(self), nullptr);
}

// The server keeps a bounded number of messages for it.
TEST_F(Streams, ANodeThatDoesNotReadIsCutOff) {
  const auto channel = Joins();
  const auto stream = Opens(*channel);
  for (int i = 0; i < 10'000; ++i) {
    node_stream_->Send({3, false, {.ranks = std::vector<RankSpan>(kMostRankSpans)}});
  }
  EXPECT_TRUE(Until([&] { return node_ended == 1; }));
  EXPECT_LT(commands.size(), 10'000u);
}

TEST_F(Streams, AnOperatorTakesPieceAfterPiece) {
  const AskStart start{"run", "token", {.kind = RequestKind::kSave}, {"n0"}};
  int wanted = 0;
  const auto told = Asks(
      [&]() -> Result<void> {
        ASSIGN_OR_RETURN(NodeQuery call, NodeQuery::Open({endpoint_, {}, {}}, start, 5s));
        EXPECT_EQ(call.nodes(), std::vector<NodeId>{"n0"});
        for (int i = 0; i < 2; ++i) {
          std::optional<AskReply> reply;
          while (!reply) {
            ASSIGN_OR_RETURN(reply, call.Next(20ms));
          }
          EXPECT_EQ(reply->piece.bytes, std::to_string(i));
          call.Want(reply->node);
        }
        while (true) {
          ASSIGN_OR_RETURN(const auto reply, call.Next(1s));
          EXPECT_FALSE(reply);
        }
      },
      [&] {
        EXPECT_EQ(start_, start);
        operator_stream_->Listen(
            [&](const NodeId& node) {
              EXPECT_EQ(node, "n0");
              if (++wanted == 1) {
                operator_stream_->Send({{}, "n0", {1, "1"}});
              } else {
                operator_stream_->End({ErrorKind::kNotFound, "no more"});
              }
            },
            [] {});
        operator_stream_->Send({{"n0"}, {}, {}});
        operator_stream_->Send({{}, "n0", {1, "0"}});
      });
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().kind, ErrorKind::kNotFound);
  EXPECT_TRUE(told.error().message.ends_with("no more")) << told.error().message;
}

TEST_F(Streams, AnOperatorWhoGoesIsNoticed) {
  bool ended = false;
  const auto told = Asks(
      [&]() -> Result<void> {
        RETURN_IF_ERROR(NodeQuery::Open({endpoint_, {}, {}}, {.run_id = "run"}, 5s));
        return {};
      },
      [&] {
        operator_stream_->Listen([](const NodeId&) {}, [&] { ended = true; });
        operator_stream_->Send({{"n0"}, {}, {}});
      });
  EXPECT_TRUE(told);
  EXPECT_TRUE(Until([&] { return ended; }));
}

}  // namespace
}  // namespace ddprun

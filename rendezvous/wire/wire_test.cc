// Service, server and both channels over loopback, with a handler that the test controls.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/result_testing.h"
#include "common/slug.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/client.h"
#include "rendezvous/client_asks.h"
#include "rendezvous/listener/hello.h"
#include "rendezvous/local_channel.h"
#include "rendezvous/server.h"
#include "rendezvous/testing/loopback.h"
#include "rendezvous/testing/wire_fixture.h"
#include "rendezvous/wire/convert.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

// The same rules, with a socket and without.
class EitherChannel : public WireTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string_view("grpc")) {
      Serve({"127.0.0.1", 0});
      channel_ = GrpcChannelTo(loop_, endpoint_);
    } else {
      channel_ = LocalChannelTo(loop_, Handlers());
    }
  }

  std::unique_ptr<SyncChannel> channel_;
};
INSTANTIATE_TEST_SUITE_P(Wire, EitherChannel, testing::Values("grpc", "local"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EitherChannel, ACallIsParkedUntilItIsAnswered) {
  NodeReport report = Report(3);
  channel_->Send(report, 5s, Note());
  EXPECT_TRUE(reports_.empty() && heard_.empty());  // Nothing calls back from inside.
  ASSERT_TRUE(UntilParked(1));
  report.seen_at = GetParam() == std::string("grpc") ? "127.0.0.1" : "";
  EXPECT_EQ(reports_[0], report);
  parked_[0]->Answer(Reply(4));
  EXPECT_TRUE(heard_.empty());
  ASSERT_TRUE(UntilHeard(1));
  EXPECT_EQ(heard_[0].sequence, 3u);
  ASSERT_TRUE(heard_[0].reply) << heard_[0].reply.error().message;
  EXPECT_EQ(heard_[0].reply->clock.has_value(), GetParam() == std::string("grpc"));
  EXPECT_EQ(WithoutClock(*heard_[0].reply), Reply(4));
  EXPECT_TRUE(cancelled_.empty());
}

TEST_P(EitherChannel, ADroppedCallIsRefused) {
  channel_->Send(Report(1), 5s, Note());
  ASSERT_TRUE(UntilParked(1));
  parked_.clear();
  ASSERT_TRUE(UntilHeard(1));
  EXPECT_TRUE(Fails(heard_[0].reply, ErrorKind::kUnavailable));
  EXPECT_TRUE(WithoutSlug(heard_[0].reply.error().message).ends_with("superseded"));
}

TEST_P(EitherChannel, ARefusalArrivesWithItsKindAndWords) {
  channel_->Send(Report(1), 5s, Note());
  ASSERT_TRUE(UntilParked(1));
  parked_[0]->Refuse({ErrorKind::kRefused, "another run is served here"});
  ASSERT_TRUE(UntilHeard(1));
  EXPECT_TRUE(Fails(heard_[0].reply, ErrorKind::kRefused));
  EXPECT_TRUE(heard_[0].reply.error().message.ends_with("another run is served here"));
}

TEST_P(EitherChannel, TheServerSeesACancelledCall) {
  channel_->Send(Report(9), 5s, Note());
  ASSERT_TRUE(UntilParked(1));
  channel_->Cancel();
  ASSERT_TRUE(Until([&] { return cancelled_.size() == 1; }));
  EXPECT_EQ(cancelled_[0], NameOf(Report(9)));
  parked_[0]->Answer(Reply(1));  // Without a caller.
  channel_->Send(Report(10), 5s, Note());
  ASSERT_TRUE(UntilParked(2));
  parked_[1]->Answer(Reply(2));
  ASSERT_TRUE(UntilHeard(1));
  EXPECT_EQ(heard_[0].sequence, 10u);
}

TEST_P(EitherChannel, ANewCallReplacesTheOneInFlight) {
  channel_->Send(Report(1), 5s, [](auto, auto) { FAIL() << "the replaced call came back"; });
  ASSERT_TRUE(UntilParked(1));
  channel_->Send(Report(2), 5s, Note());
  ASSERT_TRUE(UntilParked(2));
  ASSERT_TRUE(Until([&] { return cancelled_.size() == 1; }));
  EXPECT_EQ(cancelled_[0].sequence, 1u);
  parked_[0]->Answer(Reply(1));
  parked_[1]->Answer(Reply(2));
  ASSERT_TRUE(UntilHeard(1));
  EXPECT_EQ(WithoutClock(*heard_[0].reply), Reply(2));
}

TEST_P(EitherChannel, AMissedDeadlineIsAnErrorAndTheNextCallWorks) {
  channel_->Send(Report(1), 50ms, Note());
  ASSERT_TRUE(UntilHeard(1));
  EXPECT_TRUE(Fails(heard_[0].reply, ErrorKind::kUnavailable));
  EXPECT_TRUE(WithoutSlug(heard_[0].reply.error().message).ends_with("within 50 ms"))
      << heard_[0].reply.error().message;
  ASSERT_TRUE(Until([&] { return cancelled_.size() == parked_.size(); }));
  channel_->Send(Report(2), 5s, Note());
  // The first call may arrive late, but before the second.
  ASSERT_TRUE(Until([&] { return !reports_.empty() && reports_.back().sequence == 2; }));
  parked_.back()->Answer(Reply(2));
  ASSERT_TRUE(UntilHeard(2));
  EXPECT_TRUE(heard_[1].reply);
}

TEST_P(EitherChannel, ADestroyedChannelIsSilent) {
  channel_->Send(Report(1), 5s, [](auto, auto) { FAIL() << "the channel is gone"; });
  ASSERT_TRUE(UntilParked(1));
  parked_[0]->Answer(Reply(1));
  channel_.reset();
  loop_.io().run_for(20ms);
}

TEST_F(WireTest, AMalformedReportNeverReachesTheHandler) {
  Serve({"127.0.0.1", 0});
  const auto channel = GrpcChannelTo(loop_, endpoint_);
  NodeReport report = Report(1);
  report.workers = 0;
  channel->Send(report, 5s, Note());
  ASSERT_TRUE(UntilHeard(1));
  EXPECT_TRUE(Fails(heard_[0].reply, ErrorKind::kInvalid, "workers must be from 1 to 4096, not 0"));
  EXPECT_TRUE(reports_.empty());
}

TEST_F(WireTest, AnOversizedMessageIsRefusedByTheServer) {
  Serve({"127.0.0.1", 0});
  const auto status = Beside<grpc::Status>([&]() -> Result<grpc::Status> {
    const auto stub = v1::Rendezvous::NewStub(
        grpc::CreateChannel(ToString(endpoint_), grpc::InsecureChannelCredentials()));
    v1::SyncRequest request;
    request.set_run_id(std::string(2 << 20, 'x'));
    v1::SyncReply reply;
    v1::DescribeReply description;
    grpc::ClientContext first;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 5s);
    stub->Describe(&first, v1::DescribeRequest(),
                   &description);  // An unauthenticated client may send less.
    return stub->Sync(&context, request, &reply);
  });
  EXPECT_EQ(status->error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status->error_message();
}

TEST_F(WireTest, AServersEndIsAnErrorAndItsSuccessorIsFound) {
  Serve({"127.0.0.1", 0});
  const auto channel = GrpcChannelTo(loop_, endpoint_);
  channel->Send(Report(1), 5s, Note());
  ASSERT_TRUE(UntilParked(1));
  server_.reset();
  ASSERT_TRUE(UntilHeard(1));
  EXPECT_TRUE(Fails(heard_[0].reply, ErrorKind::kUnavailable));

  const std::string refused = "cannot reach the rendezvous at " + ToString(endpoint_) +
                              ": Connection refused [rendezvous-unreachable]";
  std::uint64_t sequence = 1;
  ASSERT_TRUE(Until([&] {
    channel->Send(Report(++sequence), 5s, Note());
    const std::size_t before = heard_.size();
    return UntilHeard(before + 1) && heard_.back().reply.error().message == refused;
  })) << heard_.back().reply.error().message;

  // The first call after the server's start must find it; gRPC's own backoff would still refuse it.
  Serve(endpoint_);
  const Time start = loop_.Now();
  channel->Send(Report(++sequence), 5s, Note());
  ASSERT_TRUE(UntilParked(2));
  RecordProperty("reconnect_us", std::to_string((loop_.Now() - start).count()));
  parked_[1]->Answer(Reply(2));
  ASSERT_TRUE(Until([&] { return heard_.back().sequence == sequence; }));
  EXPECT_TRUE(heard_.back().reply);
}

TEST_F(WireTest, NamesAreLookedUp) {
  Serve({"localhost", 0});
  const auto channel = GrpcChannelTo(loop_, endpoint_);
  channel->Send(Report(1), 5s, [](auto, auto) { FAIL() << "the replaced call came back"; });
  channel->Send(Report(2), 5s, Note());  // While the look-up is on its way.
  ASSERT_TRUE(UntilParked(1));
  EXPECT_EQ(reports_[0].sequence, 2u);
  parked_[0]->Answer(Reply(1));
  ASSERT_TRUE(UntilHeard(1));
  EXPECT_TRUE(heard_[0].reply);
}

TEST_F(WireTest, ShutdownRefusesParkedCalls) {
  Serve({"127.0.0.1", 0});
  const auto channel = GrpcChannelTo(loop_, endpoint_);
  channel->Send(Report(1), 30s, Note());
  ASSERT_TRUE(UntilParked(1));
  server_->Shutdown();
  ASSERT_TRUE(UntilHeard(1));
  ASSERT_FALSE(heard_[0].reply);
  EXPECT_TRUE(
      WithoutSlug(heard_[0].reply.error().message).ends_with("the rendezvous is shutting down"))
      << heard_[0].reply.error().message;
  parked_[0]->Answer(Reply(1));  // Its owner cannot know.
}

// gRPC waits for every call's end, and the loop that would end this one is busy shutting down.
TEST_F(WireTest, ShutdownIsBoundedWhenTheLoopCannotAnswer) {
  Serve({"127.0.0.1", 0});
  Duration took{0};
  shut_down_in_status_ = [&] {
    const Time start = loop_.Now();
    server_->Shutdown();
    took = std::chrono::ceil<Duration>(loop_.Now() - start);
  };
  using Runs = std::vector<RunStatus>;
  EXPECT_FALSE(Beside<Runs>([&] { return AskStatus({endpoint_, {}, {}}, "r1", 5s); }));
  EXPECT_GT(took, 0ms);
  EXPECT_LT(took, 10s);
}

TEST_F(WireTest, StatusComesBackInValuesAndARunThatIsNotKnownIsSaid) {
  using Runs = std::vector<RunStatus>;
  Serve({"127.0.0.1", 0});

  const auto runs = Beside<Runs>([&] { return AskStatus({endpoint_, {}, {}}, "r1", 5s); });
  ASSERT_TRUE(runs) << runs.error().message;
  EXPECT_EQ(*runs, *Handlers().status("r1"));
  const auto unknown = Beside<Runs>([&] { return AskStatus({endpoint_, {}, {}}, "unknown", 5s); });
  EXPECT_TRUE(Fails(unknown, ErrorKind::kNotFound));
  EXPECT_TRUE(unknown.error().message.ends_with("no run 'unknown' here"));
  server_.reset();
  const auto nobody = Beside<Runs>([&] { return AskStatus({endpoint_, {}, {}}, "r1", 5s); });
  EXPECT_TRUE(Fails(nobody, ErrorKind::kUnavailable));
}

TEST_F(WireTest, ControlCarriesTheRequestAndItsProof) {
  server_.emplace(loop_, Handlers(), AcceptorOptions{});
  server_->Prove("secret");
  endpoint_ = *server_->Listen({"127.0.0.1", 0});
  ControlRequest request{"r1", ControlVerb::kDrain, "n1", "secret"};
  const auto ask = [&] {
    return Beside<std::string>([&] { return AskControl({endpoint_, {}, {}}, request, 5s); });
  };
  const auto done = ask();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(*done, "done");
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(asked_[0].run_id, "r1");
  EXPECT_EQ(asked_[0].node, "n1");
  EXPECT_EQ(asked_[0].verb, ControlVerb::kDrain);
  EXPECT_EQ(TryToJoin(endpoint_, {}), "");  // Nodes need no token, drain and stop do.
  request.token = "guess";                  // Not shown to a server that does not prove it.
  EXPECT_EQ(ask().error().kind, ErrorKind::kInvalid);
  request.token = "";
  EXPECT_EQ(ask().error().kind, ErrorKind::kRefused);
  request = {"r1", ControlVerb::kDrain, "", "secret"};  // Whom?
  EXPECT_EQ(ask().error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(asked_.size(), 2u);
}

TEST_F(WireTest, OnePortServesAgentsProbesAndAStore) {
  std::vector<UniqueFd> store;
  Serve({"127.0.0.1", 0});
  server_->SetStore([&](UniqueFd fd) { store.push_back(std::move(fd)); });
  const auto hello = Beside<void>([&] { return Hello(endpoint_, 5s); });
  EXPECT_TRUE(hello) << hello.error().message;

  const UniqueFd peer = ConnectToLoopback(endpoint_.port);
  ASSERT_EQ(::send(peer.get(), "\x00\xce\xf7\x85\x3c", 5, MSG_NOSIGNAL), 5);
  EXPECT_TRUE(Until([&] { return store.size() == 1; }));

  const auto channel = GrpcChannelTo(loop_, endpoint_);
  channel->Send(Report(1), 5s, Note());
  EXPECT_TRUE(UntilParked(1));
}

TEST_F(WireTest, ASecondServerOnThePortIsRefusedAndMayTryAgain) {
  Serve({"127.0.0.1", 0});
  RendezvousServer second(loop_, Handlers(), {});
  EXPECT_TRUE(Fails(second.Listen(endpoint_), ErrorKind::kUnavailable, "in use by process "));
  server_.reset();
  const Result<Endpoint> taken = second.Listen(endpoint_);
  EXPECT_TRUE(taken) << taken.error().message;
}

}  // namespace
}  // namespace ddprun

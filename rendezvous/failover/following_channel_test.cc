#include "rendezvous/failover/following_channel.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/testing/pump.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// A way to one server, as the test plays it. Its question outlives it.
struct Asked {
  std::vector<std::uint64_t> sequences;
  SyncChannel::Done done;
  int cancelled = 0;
};

class FakeChannel final : public SyncChannel {
 public:
  explicit FakeChannel(Asked& asked) : asked_(asked) {}
  ~FakeChannel() override { asked_.done = nullptr; }  // As both real ones.
  void Send(const NodeReport& report, Duration, Done done) override {
    asked_.sequences.push_back(report.sequence);
    asked_.done = std::move(done);
  }
  void Cancel() override {
    asked_.done = nullptr;
    ++asked_.cancelled;
  }

 private:
  Asked& asked_;
};

class Following : public testing::Test {
 protected:
  void Send(std::uint64_t sequence, Duration deadline) {
    NodeReport report;
    report.sequence = sequence;
    channel_.Send(report, deadline, [this](std::uint64_t number, Result<SyncReply> reply) {
      heard_.push_back(std::to_string(number) + (reply
                                                     ? " term " + std::to_string(reply->term.value)
                                                     : " " + reply.error().message));
    });
  }
  void Go(Asked& server) { channel_.SpeakThrough(std::make_unique<FakeChannel>(server)); }
  static void Answer(Asked& server, std::uint64_t term) {
    SyncReply reply;
    reply.term = {term};
    const SyncChannel::Done done = server.done;  // The channel may go with the answer.
    done(server.sequences.back(), reply);
  }

  AsioLoop loop_;
  Asked first_;  // Before the channels, which hold on to them.
  Asked second_;
  FollowingChannel channel_{loop_};
  std::vector<std::string> heard_;
};

TEST_F(Following, ACallWithoutAServerGoesToTheFirstThatComes) {
  Send(1, 10s);
  EXPECT_TRUE(heard_.empty());
  Go(first_);
  EXPECT_EQ(first_.sequences, std::vector<std::uint64_t>{1});
  Answer(first_, 5);
  EXPECT_EQ(heard_, std::vector<std::string>{"1 term 5"});
}

TEST_F(Following, ACallWithoutAServerInTimeFailsWithTheReason) {
  Send(1, 20ms);
  ASSERT_TRUE(PumpUntil(loop_, [&] { return !heard_.empty(); }));
  EXPECT_EQ(heard_.front(), "1 no node serves the rendezvous at the moment");
  Go(first_);
  EXPECT_TRUE(first_.sequences.empty()) << "a call that has failed is sent";
}

TEST_F(Following, AnOpenCallIsSentAgainToTheNextServerAndAnsweredOnce) {
  Go(first_);
  Send(1, 10s);
  Go(second_);
  EXPECT_FALSE(first_.done) << "the old server could still answer";
  EXPECT_EQ(second_.sequences, std::vector<std::uint64_t>{1});
  Answer(second_, 6);
  EXPECT_EQ(heard_, std::vector<std::string>{"1 term 6"});
  Go(first_);
  EXPECT_EQ(first_.sequences.size(), 1u) << "an answered call is sent again";
}

TEST_F(Following, ACancelledCallIsForgotten) {
  Send(1, 20ms);
  channel_.Cancel();
  Go(first_);
  EXPECT_TRUE(first_.sequences.empty());
  Send(2, 10s);
  channel_.Cancel();
  EXPECT_EQ(first_.cancelled, 1);
  EXPECT_TRUE(heard_.empty());
}

// The listener may find that another server is to be followed.
TEST_F(Following, TheServerMayChangeWhileAnAnswerIsDelivered) {
  Go(first_);
  channel_.OnAnswer([this](const SyncReply& reply) {
    heard_.push_back("heard " + std::to_string(reply.term.value));
    Go(second_);
  });
  Send(1, 10s);
  Answer(first_, 7);
  EXPECT_EQ(heard_, (std::vector<std::string>{"heard 7", "1 term 7"}));
  EXPECT_TRUE(second_.sequences.empty());
}

TEST_F(Following, ACallThatWaitsToTryAgainHearsOfAnotherServer) {
  int told = 0;
  channel_.OnAnotherServer([&] { ++told; });
  Go(first_);
  ASSERT_TRUE(PumpUntil(loop_, [&] { return told == 1; }));
  Send(1, 10s);
  Go(second_);  // It has the call.
  Answer(second_, 6);
  channel_.SpeakThrough(nullptr);
  Go(first_);
  ASSERT_TRUE(PumpUntil(loop_, [&] { return told == 2; }));
  EXPECT_EQ(second_.sequences.size(), 1u);
}

}  // namespace
}  // namespace ddprun

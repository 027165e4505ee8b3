#include "launcher/server/store_probe.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "rendezvous/store/refused_clients.h"

namespace ddprun {
namespace {

namespace ip = boost::asio::ip;

class StoreProbeTest : public testing::Test {
 protected:
  StoreProbe Probe(Duration patience) {
    return {loop_,
            {.unreachable = patience},
            {[this](const std::string& text) {
               told_.push_back(text);
               loop_.Stop();
             },
             nullptr}};
  }

  // Bound, so that no other process takes it; refuses until it listens.
  ip::tcp::acceptor Bound() {
    ip::tcp::acceptor socket(loop_.io());
    socket.open(ip::tcp::v4());
    socket.bind({ip::address_v4::loopback(), 0});
    return socket;
  }

  static Endpoint Of(const ip::tcp::acceptor& socket) {
    return {"127.0.0.1", socket.local_endpoint().port()};
  }

  AsioLoop loop_;
  std::vector<std::string> told_;
};

TEST_F(StoreProbeTest, SaysOnceWhatWasTriedAndWhatCameOfIt) {
  const ip::tcp::acceptor nobody = Bound();
  StoreProbe probe = Probe(Duration(20));
  loop_.Post([&] { probe.Begin(Of(nobody)); });
  loop_.Run();
  ASSERT_EQ(told_.size(), 1u);
  const std::string begin = "cannot connect to " + ToString(Of(nobody)) +
                            " (Connection refused, for " + FormatDuration(Duration(20)) +
                            "), the workers' store";
  EXPECT_EQ(told_[0].substr(0, begin.size()), begin);
  EXPECT_NE(told_[0].find("--interface=NAME"), std::string::npos);
}

// The store of a generation may come a moment after its workers have its address.
TEST_F(StoreProbeTest, TriesAgainAndIsContent) {
  ip::tcp::acceptor store = Bound();
  StoreProbe probe = Probe(Duration(60'000));
  LoopTimer later(loop_);
  loop_.Post([&] {
    probe.Begin(Of(store));
    later.ArmAt(loop_.Now() + Duration(10), [&] {
      store.listen();
      store.async_accept([&](const auto&, const auto&) { loop_.Stop(); });
    });
  });
  loop_.Run();
  EXPECT_TRUE(told_.empty());
}

TEST_F(StoreProbeTest, OfAGenerationThatHasEndedNothingIsSaid) {
  const ip::tcp::acceptor nobody = Bound();
  StoreProbe probe = Probe(Duration(10));
  LoopTimer later(loop_);
  loop_.Post([&] {
    probe.Begin(Of(nobody));
    probe.Cancel();
    probe.Begin({"a-name", 1});
    later.ArmAt(loop_.Now() + Duration(50), [&] { loop_.Stop(); });
  });
  loop_.Run();
  EXPECT_TRUE(told_.empty());
}

// A store that answers so, however often it is asked.
class Answering : public StoreProbeTest {
 protected:
  void Serve(std::vector<std::string> answers) {
    answers_ = std::move(answers);
    store_.listen();
    Accept();
  }
  void Accept() {
    store_.async_accept([this](const auto& error, ip::tcp::socket client) {
      if (error) {
        return;
      }
      std::array<char, 64> question{};
      const std::size_t size = client.read_some(boost::asio::buffer(question));
      EXPECT_EQ(std::string(question.data(), size), RefusalQuestion());
      client.write_some(boost::asio::buffer(answers_[std::min(asked_, answers_.size() - 1)]));
      ++asked_;
      kept_.push_back(std::move(client));  // It is the probe that must stop.
      Accept();
    });
  }

  ip::tcp::acceptor store_ = Bound();
  std::vector<std::string> answers_;
  std::vector<ip::tcp::socket> kept_;
  std::size_t asked_ = 0;
  std::vector<std::string> refused_;
  StoreProbe probe_{loop_,
                    {.refused = Duration(60'000), .between = Duration(1)},
                    {[this](const std::string& text) { told_.push_back(text); },
                     [this](const std::string& text) {
                       refused_.push_back(text);
                       loop_.Stop();
                     }}};
};

// torch's clients would try for half an hour, and name no cause.
TEST_F(Answering, AStoreThatRefusesTheWorkersTenTimesIsReportedWithTheFlag) {
  Serve({"ddprun refuses 10.0.0.9 0 its address belongs to no node of this world\n",
         "ddprun refuses 10.0.0.9 9 its address belongs to no node of this world\n",
         "ddprun refuses 10.0.0.9 10 its address belongs to no node of this world\n"});
  loop_.Post([&] { probe_.Begin(Of(store_)); });
  loop_.Run();
  EXPECT_EQ(asked_, 3u);
  ASSERT_EQ(told_.size(), 1u);
  ASSERT_EQ(refused_.size(), 1u);
  for (const std::string& text : {told_[0], refused_[0]}) {
    EXPECT_NE(text.find("its address belongs to no node of this world"), std::string::npos) << text;
    EXPECT_NE(text.find("Set --store-allow=10.0.0.9 on every node"), std::string::npos) << text;
  }
}

// Each of the run's restarts would else take as long as the first try.
TEST_F(Answering, TheNextGenerationIsReportedAtTheFirstTry) {
  Serve({"ddprun refuses any 10 it is user 7's\n", "ddprun refuses any 0 it is user 7's\n",
         "ddprun refuses any 1 it is user 7's\n"});
  for (int generation = 0; generation < 2; ++generation) {
    loop_.Post([&] { probe_.Begin(Of(store_)); });
    loop_.Run();
    loop_.io().restart();
  }
  EXPECT_EQ(asked_, 3u);
  EXPECT_EQ(refused_.size(), 2u);
  EXPECT_NE(refused_[1].find("Set --store-allow=any on every node"), std::string::npos);
}

// Workers that never ask for the store run on, whoever knocks there.
TEST_F(Answering, WhereNoWorkerHasTriedNothingEnds) {
  probe_.Cancel();
  Serve({"ddprun refuses 10.0.0.9 0 why\n"});
  LoopTimer later(loop_);
  loop_.Post([&] {
    probe_.Begin(Of(store_));
    later.ArmAt(loop_.Now() + Duration(100), [&] { loop_.Stop(); });
  });
  loop_.Run();
  EXPECT_GT(asked_, 1u);
  EXPECT_EQ(told_.size(), 1u);
  EXPECT_TRUE(refused_.empty());
}

TEST_F(Answering, AStoreThatLetsItInIsAskedOnce) {
  for (const std::string& answer :
       {RefusalQuestion().substr(6), std::string("ddprun refuses all\n"), std::string("HTTP/1.1\n"),
        std::string("dddd") + std::string(2'000, 'd')}) {
    asked_ = 0;
    Serve({answer});
    LoopTimer later(loop_);
    loop_.Post([&] {
      probe_.Begin(Of(store_));
      later.ArmAt(loop_.Now() + Duration(50), [&] { loop_.Stop(); });
    });
    loop_.Run();
    loop_.io().restart();
    EXPECT_EQ(asked_, 1u);
    EXPECT_TRUE(told_.empty());
    EXPECT_TRUE(refused_.empty());
  }
}

}  // namespace
}  // namespace ddprun

#include "launcher/server/store_probe.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddprun {
namespace {

namespace ip = boost::asio::ip;

class StoreProbeTest : public testing::Test {
 protected:
  StoreProbe Probe(Duration patience) {
    return {loop_, patience, [this](const std::string& text) {
              told_.push_back(text);
              loop_.Stop();
            }};
  }

  // Bound, so that nobody else takes it; refuses until it listens.
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
                            " (Connection refused, for " + FormatDuration(Duration(20)) + "): ";
  EXPECT_EQ(told_[0].substr(0, begin.size()), begin);
  EXPECT_NE(told_[0].find("--interface=NAME"), std::string::npos);
}

// The store of a generation may come a moment after its workers are told of it.
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

}  // namespace
}  // namespace ddprun

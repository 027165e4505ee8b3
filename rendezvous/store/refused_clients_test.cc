#include "rendezvous/store/refused_clients.h"

#include <gtest/gtest.h>

#include <boost/asio/connect.hpp>
#include <functional>

#include "rendezvous/store/store_request.h"

namespace ddprun {
namespace {

using boost::asio::ip::tcp;

constexpr const char* kWhy = "its address belongs to no node of this world";

class RefusedClientsTest : public testing::Test {
 protected:
  // A client that is refused, and says `words`. The bytes that it hears until it is closed.
  std::string Hears(const std::string& words) {
    tcp::socket client(loop_.io());
    client.connect(acceptor_.local_endpoint());
    client.write_some(boost::asio::buffer(words));
    refused_.Take(acceptor_.accept(), "10.0.0.9", kWhy);
    std::string heard;
    std::array<char, 512> bytes{};
    std::function<void()> listen = [&] {
      client.async_read_some(boost::asio::buffer(bytes), [&](const auto& error, std::size_t size) {
        heard.append(bytes.data(), size);
        if (error) {
          loop_.Stop();
        } else {
          listen();
        }
      });
    };
    listen();
    loop_.Run();
    loop_.io().restart();
    return heard;
  }
  std::optional<Refusal> Asks() { return ReadRefusal(Hears(RefusalQuestion())); }

  AsioLoop loop_;
  tcp::acceptor acceptor_{loop_.io(), {boost::asio::ip::address_v4::loopback(), 0}};
  RefusedClients refused_{loop_};
};

// The node that asks could not say what to set: it does not know how it is seen here.
TEST_F(RefusedClientsTest, OneThatAsksHearsWhatToAllowAndWhy) {
  const auto refusal = Asks();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->allow, "10.0.0.9");
  EXPECT_EQ(refusal->why, kWhy);
  EXPECT_EQ(refusal->count, 0u);  // The caller that asks is no client of the store.
}

TEST_F(RefusedClientsTest, ClientsOfAStoreAreCountedAndOthersAreNot) {
  EXPECT_EQ(Hears(wire::Validate() + wire::Ping(77)), "");
  EXPECT_EQ(Hears(wire::Validate()), "");
  EXPECT_EQ(Hears("GET / HTTP/1.1\r\n"), "");
  EXPECT_EQ(Hears("SSH-2.0-x\r\n"), "");
  EXPECT_EQ(Asks()->count, 2u);
}

// A port scanner, say.
TEST_F(RefusedClientsTest, OneThatSaysNothingIsClosed) {
  EXPECT_EQ(Hears(""), "");
  EXPECT_EQ(Asks()->count, 0u);
}

TEST_F(RefusedClientsTest, NoMoreAreKeptThanItMay) {
  std::vector<tcp::socket> clients;
  for (std::size_t i = 0; i <= RefusedClients::kMostKept; ++i) {
    clients.emplace_back(loop_.io()).connect(acceptor_.local_endpoint());
    refused_.Take(acceptor_.accept(), "10.0.0.9", kWhy);
  }
  std::array<char, 1> byte{};
  boost::system::error_code error;
  EXPECT_EQ(clients.front().read_some(boost::asio::buffer(byte), error), 0u);
  EXPECT_EQ(error, boost::asio::error::eof);
  clients.back().non_blocking(true);
  clients.back().read_some(boost::asio::buffer(byte), error);
  EXPECT_EQ(error, boost::asio::error::would_block);
}

TEST(ReadRefusal, OtherWordsAreNone) {
  for (const char* const words :
       {"", "\n", "ddprun refuses ", "ddprun refuses \n", "ddprun refuses 10.0.0.9\n",
        "ddprun refuses 10.0.0.9 x y\n", "ddprun refuses 10.0.0.9 12 why", "\x57\xfe\x9a\xdd"}) {
    EXPECT_FALSE(ReadRefusal(words)) << words;
  }
  const auto shortest = ReadRefusal("ddprun refuses any 3\n");
  ASSERT_TRUE(shortest);
  EXPECT_EQ(shortest->count, 3u);
  EXPECT_EQ(shortest->why, "");
}

}  // namespace
}  // namespace ddprun

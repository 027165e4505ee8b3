// Unauthenticated clients at the port: they stand still, flood, and speak no HTTP.
#include "launcher/watching/http_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <mutex>

namespace ddprun {
namespace {

using boost::asio::ip::tcp;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The same for every path.
struct Echo final : HttpAnswers {
  explicit Echo(HttpAnswer said) : answer(std::move(said)) {}
  HttpAnswer Reply(const HttpRequest& request) override {
    HttpAnswer told = answer;
    told.body += request.path == "/stream" ? "" : request.path;
    told.stream = request.path == "/stream";
    if (request.post) {
      told = {200, "posted " + request.body};
    }
    if (request.path == "/act") {
      told.act = act;
    }
    return told;
  }
  std::string News(StreamPlace& place) override {
    place.state += "x";
    return "data: " + place.state + large + "\n\n";
  }
  HttpAnswer answer;
  std::string large;
  std::function<void(std::function<void(HttpAnswer)>)> act;
};

class HttpListenerTest : public ::testing::Test {
 protected:
  void Open(HttpListener::Ask ask) {
    listener_ = std::make_unique<HttpListener>(std::move(ask),
                                               std::make_shared<Echo>(HttpAnswer{503, "late "}));
    ASSERT_TRUE(listener_->Listen(ListenOn({"127.0.0.1", 0}).value()));
  }
  void OpenAnswering() {
    Open([this](std::function<void(HttpListener::Answer)> done) {
      ++asked_;
      const auto echo = std::make_shared<Echo>(HttpAnswer{200, "this is "});
      echo->large = large_;
      echo->act = act_;
      done(echo);
    });
  }

  tcp::socket Connect() {
    tcp::socket socket(io_);
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), listener_->endpoint().port});
    return socket;
  }
  // A connection on which this has been said.
  tcp::socket Begin(const std::string& text) {
    tcp::socket socket = Connect();
    boost::asio::write(socket, boost::asio::buffer(text));
    return socket;
  }
  // All that comes until the end.
  static std::string ReadAll(tcp::socket& socket) {
    std::string all;
    boost::system::error_code end;
    boost::asio::read(socket, boost::asio::dynamic_buffer(all), end);
    return all;
  }
  std::string Say(const std::string& text) {
    tcp::socket socket = Connect();
    boost::system::error_code ignored;
    boost::asio::write(socket, boost::asio::buffer(text), ignored);
    return ReadAll(socket);
  }
  std::string Get(const std::string& path) {
    return Say("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  boost::asio::io_context io_;
  std::atomic<int> asked_ = 0;
  std::string large_;
  std::function<void(std::function<void(HttpAnswer)>)> act_;
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, AnswersGetAndHead) {
  OpenAnswering();
  EXPECT_THAT(Get("/livez?verbose"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nthis is /livez")));
  EXPECT_THAT(Say("HEAD /x HTTP/1.0\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.0 200 OK\r\n"), HasSubstr("Content-Length: 10\r\n"),
                    EndsWith("\r\n\r\n")));
  EXPECT_THAT(Say("POST /x HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc"),
              EndsWith("\r\n\r\nposted abc"));
  EXPECT_THAT(Say("PUT /x HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 405"));
}

TEST_F(HttpListenerTest, AConnectionServesOneRequestAfterTheOther) {
  OpenAnswering();
  const std::string told = Say(
      "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(told, AllOf(HasSubstr("this is /a"), EndsWith("this is /b")));
}

TEST_F(HttpListenerTest, AConnectionWithoutARequestIsClosed) {
  OpenAnswering();
  for (const std::string& text :
       {std::string("\0\0\0\0\r\n\r\n", 8), std::string(64 * 1024, 'a'),
        "GET /" + std::string(16 * 1024, 'a') + " HTTP/1.1\r\n\r\n",
        std::string("GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n")}) {
    Say(text);
  }
  EXPECT_THAT(Get("/livez"), EndsWith("this is /livez"));
}

// A probe gets through although unauthenticated clients hold every place.
TEST_F(HttpListenerTest, TheConnectionIdleForLongestMakesRoom) {
  OpenAnswering();
  std::vector<tcp::socket> held;
  for (std::size_t i = 0; i < 3 * HttpListener::kMostConnections; ++i) {
    held.push_back(Connect());
  }
  EXPECT_THAT(Get("/livez"), EndsWith("this is /livez"));
  EXPECT_EQ(ReadAll(held.front()), "");  // It was closed.
}

// Clients that send a request and stand still take the places of their own kind, not of a watcher.
TEST_F(HttpListenerTest, AReaderThatWatchesKeepsItsPlace) {
  act_ = [](const std::function<void(HttpAnswer)>&) {};  // Busy for as long as the test takes.
  OpenAnswering();
  tcp::socket watching = Begin("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
  std::string seen;
  boost::asio::read_until(watching, boost::asio::dynamic_buffer(seen), "data: x\n\n");
  std::vector<tcp::socket> standing;
  for (std::size_t i = 0; i < 2 * HttpListener::kMostConnections; ++i) {
    standing.push_back(Begin("GET /act HTTP/1.1\r\nHost: h\r\n\r\n"));
  }
  EXPECT_EQ(ReadAll(standing.front()), "");  // It was closed.
  boost::system::error_code ended;
  boost::asio::read_until(watching, boost::asio::dynamic_buffer(seen), "data: xxx\n\n", ended);
  EXPECT_FALSE(ended) << ended.message();
}

// However many ask, the loop is asked once, and each gets its answer.
TEST_F(HttpListenerTest, TheLoopIsAskedOnceAtATime) {
  std::mutex mutex;
  std::vector<std::function<void(HttpListener::Answer)>> open;
  Open([&](std::function<void(HttpListener::Answer)> done) {
    const std::lock_guard lock(mutex);
    ++asked_;
    open.push_back(std::move(done));
  });
  std::vector<tcp::socket> sockets;
  for (int i = 0; i < 20; ++i) {
    sockets.push_back(Begin("GET / HTTP/1.0\r\n\r\n"));
  }
  // No answer comes: the callers hear that it stands still, and no second question was asked.
  for (tcp::socket& socket : sockets) {
    EXPECT_THAT(ReadAll(socket), EndsWith("late /"));
  }
  EXPECT_EQ(asked_, 1);
  {
    const std::lock_guard lock(mutex);
    open.at(0)(std::make_shared<Echo>(HttpAnswer{200, "at last"}));
    open.clear();
  }
  while (Get("/").find("at last") == std::string::npos) {
  }
}

TEST_F(HttpListenerTest, ItsEndWaitsForNoReader) {
  std::function<void(HttpListener::Answer)> kept;
  std::atomic<bool> asked = false;
  Open([&](std::function<void(HttpListener::Answer)> done) {
    kept = std::move(done);
    asked = true;
  });
  tcp::socket idle = Connect();
  tcp::socket waiting = Begin("GET / HTTP/1.0\r\n\r\n");
  while (!asked) {
  }
  listener_.reset();
  kept(std::make_shared<Echo>(HttpAnswer{}));  // Too late, and without a caller.
  EXPECT_EQ(ReadAll(idle), "");
}

TEST_F(HttpListenerTest, ARequestThatCameElsewhereIsAnswered) {
  OpenAnswering();
  const ListenSocket elsewhere = ListenOn({"127.0.0.1", 0}).value();
  tcp::socket socket(io_);
  socket.connect({boost::asio::ip::make_address("127.0.0.1"), elsewhere.endpoint.port});
  UniqueFd accepted(::accept(elsewhere.fd.get(), nullptr, nullptr));
  listener_->Adopt(std::move(accepted), "GET /here HT");
  boost::asio::write(socket, boost::asio::buffer(std::string("TP/1.0\r\n\r\n")));
  EXPECT_THAT(ReadAll(socket), EndsWith("this is /here"));
}

// So many and no more; a reader that has gone makes room.
TEST_F(HttpListenerTest, StreamsAreBounded) {
  OpenAnswering();
  std::vector<tcp::socket> readers;
  for (std::size_t i = 0; i < HttpListener::kMostStreams; ++i) {
    readers.push_back(Begin("GET /stream HTTP/1.1\r\n\r\n"));
    std::string all;
    boost::asio::read_until(readers.back(), boost::asio::dynamic_buffer(all), "\n\n");
  }
  EXPECT_THAT(Get("/stream"), StartsWith("HTTP/1.1 503"));
  readers.pop_back();
  while (true) {
    tcp::socket again = Begin("GET /stream HTTP/1.1\r\n\r\n");
    std::string all;
    boost::asio::read_until(again, boost::asio::dynamic_buffer(all), "\r\n");
    if (all.starts_with("HTTP/1.1 200")) {
      break;
    }
  }
}

// A reader that stands still is dropped, and keeps no other waiting.
TEST_F(HttpListenerTest, AReaderThatStandsStillIsDropped) {
  large_ = std::string(std::size_t{16} << 20, 'a');
  OpenAnswering();
  tcp::socket socket = Begin("GET /stream HTTP/1.1\r\n\r\n");
  for (std::size_t i = 1; i < HttpListener::kMostStreams; ++i) {
    EXPECT_THAT(Get("/livez"), EndsWith("this is /livez"));
  }
}

TEST_F(HttpListenerTest, ARequestWithoutAnAnswerIsLate) {
  act_ = [](const std::function<void(HttpAnswer)>&) {};
  OpenAnswering();
  EXPECT_THAT(Get("/act"), EndsWith("late /act"));
}

}  // namespace
}  // namespace ddprun

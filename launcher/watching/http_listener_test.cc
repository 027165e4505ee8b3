// Strangers at the port: they stand still, flood, and speak no HTTP.
#include "launcher/watching/http_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <mutex>

namespace ddprun {
namespace {

using boost::asio::ip::tcp;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpListenerTest : public ::testing::Test {
 protected:
  void Open(HttpListener::Ask ask) {
    listener_ = HttpListener::Open(ListenOn({"127.0.0.1", 0}).value(), std::move(ask),
                                   [](std::string_view) {
                                     return HttpAnswer{503, "late\n"};
                                   })
                    .value();
  }
  void OpenAnswering() {
    Open([this](std::function<void(HttpListener::Answer)> done) {
      ++asked_;
      done([](std::string_view path) { return HttpAnswer{200, "this is " + std::string(path)}; });
    });
  }

  tcp::socket Connect() {
    tcp::socket socket(io_);
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), listener_->endpoint().port});
    return socket;
  }
  // What comes until the end.
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
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, AnswersGetAndHead) {
  OpenAnswering();
  EXPECT_THAT(Get("/livez?verbose"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nthis is /livez")));
  EXPECT_THAT(Say("HEAD /x HTTP/1.0\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.0 200 OK\r\n"), HasSubstr("Content-Length: 10\r\n"),
                    EndsWith("\r\n\r\n")));
  EXPECT_THAT(Say("POST /x HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 405"));
}

TEST_F(HttpListenerTest, AConnectionServesOneRequestAfterTheOther) {
  OpenAnswering();
  const std::string told = Say(
      "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(told, AllOf(HasSubstr("this is /a"), EndsWith("this is /b")));
}

TEST_F(HttpListenerTest, WhatIsNoRequestIsClosed) {
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

// A probe gets through although strangers hold every place.
TEST_F(HttpListenerTest, WhoIsIdleForLongestMakesRoom) {
  OpenAnswering();
  std::vector<tcp::socket> held;
  for (std::size_t i = 0; i < 3 * HttpListener::kMostConnections; ++i) {
    held.push_back(Connect());
  }
  EXPECT_THAT(Get("/livez"), EndsWith("this is /livez"));
  EXPECT_EQ(ReadAll(held.front()), "");  // It was closed.
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
    sockets.push_back(Connect());
    boost::asio::write(sockets.back(), boost::asio::buffer(std::string("GET / HTTP/1.0\r\n\r\n")));
  }
  // Nobody answers: they hear that it stands still, and no second question was asked.
  for (tcp::socket& socket : sockets) {
    EXPECT_THAT(ReadAll(socket), EndsWith("late\n"));
  }
  EXPECT_EQ(asked_, 1);
  {
    const std::lock_guard lock(mutex);
    open.at(0)([](std::string_view) { return HttpAnswer{200, "at last"}; });
    open.clear();
  }
  while (Get("/").find("at last") == std::string::npos) {
  }
}

TEST_F(HttpListenerTest, ItsEndWaitsForNobody) {
  std::function<void(HttpListener::Answer)> kept;
  std::atomic<bool> asked = false;
  Open([&](std::function<void(HttpListener::Answer)> done) {
    kept = std::move(done);
    asked = true;
  });
  tcp::socket idle = Connect();
  tcp::socket waiting = Connect();
  boost::asio::write(waiting, boost::asio::buffer(std::string("GET / HTTP/1.0\r\n\r\n")));
  while (!asked) {
  }
  listener_.reset();
  kept([](std::string_view) { return HttpAnswer{}; });  // Too late, and for nobody.
  EXPECT_EQ(ReadAll(idle), "");
}

}  // namespace
}  // namespace ddprun

// For tests: a store server on a loop of its own, and clients that send and read raw bytes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <memory>
#include <thread>

#include "rendezvous/listener/listen_socket.h"
#include "rendezvous/store/store_request_testing.h"
#include "rendezvous/store/store_server.h"

namespace ddprun {

using namespace std::chrono_literals;
using boost::asio::ip::tcp;

// A server on a loop thread of its own, on any free port.
class Served {
 public:
  explicit Served(const StoreOptions& options = {}) : server_(loop_, options) {
    auto listener = ListenOn({"127.0.0.1", 0});
    CHECK(listener.has_value());
    port_ = listener->endpoint.port;
    server_.Serve(std::move(listener->fd));
    thread_ = std::thread([this] { loop_.Run(); });
  }
  template <class Work>
  auto On(Work work) {
    using Answer = decltype(work(server_));
    auto task = std::make_shared<std::packaged_task<Answer()>>([&] { return work(server_); });
    std::future<Answer> answer = task->get_future();
    loop_.Post([task] { (*task)(); });
    return answer.get();
  }

  ~Served() {
    loop_.Post([this] { loop_.Stop(); });
    thread_.join();
  }

  std::size_t Connections() {
    return On([](StoreServer& server) { return server.connections(); });
  }

  // Each look is a round trip over the loop, so that what came before it has been handled: but a
  // connection that was made and not accepted yet is not counted (see Client::Settle).
  void UntilConnections(std::size_t count) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    std::size_t seen = Connections();
    while (seen != count && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
      seen = Connections();
    }
    EXPECT_EQ(seen, count);
  }

  std::uint16_t port() const { return port_; }

 private:
  AsioLoop loop_;
  StoreServer server_;
  std::thread thread_;
  std::uint16_t port_ = 0;
};

// A client that sends and reads raw bytes; a read that takes 10 s fails.
class Client {
 public:
  explicit Client(const Served& served, bool validate = true, const char* from = nullptr)
      : Client(served.port(), validate, from) {}

  explicit Client(std::uint16_t port, bool validate = true, const char* from = nullptr)
      : socket_(io_) {
    if (from != nullptr) {
      socket_.open(boost::asio::ip::tcp::v4());
      socket_.bind({boost::asio::ip::make_address(from), 0});
    }
    socket_.connect({boost::asio::ip::address_v4::loopback(), port});
    const timeval limit{10, 0};
    CHECK(::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ==
          0);
    if (validate) {
      Send(wire::Validate());
    }
  }

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent =
          ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return;  // The server closed the connection; the next Read tells.
      }
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // `size` bytes, fewer where the connection ends before.
  std::string Read(std::size_t size) {
    std::string bytes(size, 0);
    const ssize_t got = ::recv(socket_.native_handle(), bytes.data(), size, MSG_WAITALL);
    EXPECT_TRUE(got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) << "nothing came in 10 s";
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return bytes;
  }

  std::string Ask(std::string_view request, std::size_t reply_size) {
    Send(request);
    return Read(reply_size);
  }

  bool Closed() { return Read(1).empty(); }

  // The server has handled all that was sent before, and accepted all who came before.
  void Settle() { EXPECT_EQ(Ask(wire::Ping(7), 4), wire::Raw(std::uint32_t{7})); }

  tcp::socket& socket() { return socket_; }

 private:
  boost::asio::io_context io_;
  tcp::socket socket_;
};

}  // namespace ddprun

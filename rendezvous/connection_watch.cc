#include "rendezvous/connection_watch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <map>
#include <utility>

#include "common/files.h"
#include "rendezvous/turned_away.h"

namespace ddprun {
namespace {

using Descriptor = boost::asio::posix::stream_descriptor;

// Of the other end; empty: it has gone, or has no port.
std::string PeerOf(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    return "";
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  const auto print = [&](int family, const void* address) {
    return ::inet_ntop(family, address, text.data(), static_cast<socklen_t>(text.size())) != nullptr
               ? std::string(text.data())
               : "";
  };
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    return print(AF_INET, &v4.sin_addr) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (peer.ss_family != AF_INET6) {
    return "";
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
  const std::string port = ":" + std::to_string(ntohs(v6.sin6_port));
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    return print(AF_INET, &v6.sin6_addr.s6_addr[12]) + port;
  }
  return "[" + print(AF_INET6, &v6.sin6_addr) + "]" + port;
}

}  // namespace

class ConnectionWatch::State : public std::enable_shared_from_this<ConnectionWatch::State> {
 public:
  State(Loop& loop, std::function<void(const std::string&)> closed)
      : closed_(std::move(closed)), epoll_(loop.io()) {}

  std::string Watch(int fd);
  void End(const std::string& peer);
  void Close();

 private:
  struct Watched {
    UniqueFd fd;
    std::string peer;
  };
  bool Begin();
  void Wait();
  void OnReady();

  std::function<void(const std::string&)> closed_;
  // One descriptor for all of them, in which only an end counts: their bytes wake nobody here.
  Descriptor epoll_;
  std::map<int, Watched> watched_;
  std::map<std::string, int> number_of_;
};

bool ConnectionWatch::State::Begin() {
  const int fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  epoll_.assign(fd);
  Wait();
  return true;
}

std::string ConnectionWatch::State::Watch(int fd) {
  if (!closed_ || (!epoll_.is_open() && !Begin())) {
    return "";
  }
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  std::string peer = PeerOf(fd);
  // Only while half of all descriptors are free: a watched connection is worth less than a new one.
  if (copy.get() < 0 || peer.empty() || !LeavesRoom(2 * copy.get())) {
    return "";
  }
  epoll_event event{};
  event.events = EPOLLRDHUP;
  event.data.fd = copy.get();
  if (::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, copy.get(), &event) != 0) {
    return "";
  }
  const int number = copy.get();
  watched_[number] = {std::move(copy), peer};
  number_of_[peer] = number;
  return peer;
}

void ConnectionWatch::State::End(const std::string& peer) {
  if (const auto found = number_of_.find(peer); found != number_of_.end()) {
    ::shutdown(found->second, SHUT_RDWR);
  }
}

void ConnectionWatch::State::Close() {
  closed_ = nullptr;
  boost::system::error_code ignored;
  epoll_.close(ignored);
  watched_.clear();
  number_of_.clear();
}

void ConnectionWatch::State::Wait() {
  epoll_.async_wait(Descriptor::wait_read,
                    [weak = weak_from_this()](boost::system::error_code error) {
                      if (const auto self = weak.lock(); self && !error) {
                        self->OnReady();
                      }
                    });
}

void ConnectionWatch::State::OnReady() {
  std::array<epoll_event, 64> events{};
  const int count = epoll_.is_open() ? ::epoll_wait(epoll_.native_handle(), events.data(),
                                                    static_cast<int>(events.size()), 0)
                                     : 0;
  for (int i = 0; i < count && closed_; ++i) {
    const auto found = watched_.find(events[static_cast<std::size_t>(i)].data.fd);
    if (found == watched_.end()) {
      continue;
    }
    // Not by closing the copy: the registration is of the connection, which the reader holds too.
    static_cast<void>(::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_DEL, found->first, nullptr));
    const std::string peer = std::move(found->second.peer);
    if (const auto number = number_of_.find(peer);
        number != number_of_.end() && number->second == found->first) {
      number_of_.erase(number);
    }
    watched_.erase(found);
    const auto closed = closed_;  // What it does may end this.
    closed(peer);
  }
  if (epoll_.is_open()) {
    Wait();
  }
}

ConnectionWatch::ConnectionWatch(Loop& loop, std::function<void(const std::string& peer)> closed)
    : state_(std::make_shared<State>(loop, std::move(closed))) {}

ConnectionWatch::~ConnectionWatch() {
  state_->Close();
}

std::string ConnectionWatch::Watch(int fd) {
  return state_->Watch(fd);
}

void ConnectionWatch::End(const std::string& peer) {
  state_->End(peer);
}

}  // namespace ddprun

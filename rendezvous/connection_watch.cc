#include "rendezvous/connection_watch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/files.h"
#include "rendezvous/bytes_received.h"
#include "rendezvous/turned_away.h"

namespace ddprun {
namespace {

using EpollDescriptor = boost::asio::posix::stream_descriptor;

// How often, and how many at a time, connections are looked at that are not let in.
constexpr Duration kLook{10};
constexpr std::size_t kMostAtOnce = 256;

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

// To shut it down would not do: who goes on sending is heard until nothing is left to read. This
// resets the connection for whoever holds it and drops what has come.
void EndNow(int fd) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  static_cast<void>(::connect(fd, &nobody, sizeof nobody));
}

}  // namespace

class ConnectionWatch::State : public std::enable_shared_from_this<ConnectionWatch::State> {
 public:
  State(Loop& loop, Told closed, Told flooded)
      : loop_(loop),
        closed_(std::move(closed)),
        flooded_(std::move(flooded)),
        epoll_(loop.io()),
        look_(loop) {}

  std::string Watch(int fd);
  void LetIn(const std::string& peer);
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
  void OnEnd(int number);
  void LookAgain();
  void Look();

  Loop& loop_;
  Told closed_;
  Told flooded_;
  // One descriptor for all of them, in which only an end counts: their bytes wake nobody here.
  EpollDescriptor epoll_;
  std::map<int, Watched> watched_;
  std::map<std::string, int> number_of_;
  std::set<int> strangers_;  // Not let in.
  int looked_at_ = -1;       // The last of those.
  LoopTimer look_;
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
  if (copy.get() < 0 || peer.empty() || !LeavesRoom(copy.get())) {
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
  strangers_.insert(number);
  if (strangers_.size() == 1) {
    LookAgain();
  }
  return peer;
}

void ConnectionWatch::State::LetIn(const std::string& peer) {
  if (const auto found = number_of_.find(peer); found != number_of_.end()) {
    strangers_.erase(found->second);
  }
}

void ConnectionWatch::State::End(const std::string& peer) {
  if (const auto found = number_of_.find(peer); found != number_of_.end()) {
    ::shutdown(found->second, SHUT_RDWR);
  }
}

void ConnectionWatch::State::Close() {
  closed_ = nullptr;
  flooded_ = nullptr;
  strangers_.clear();
  look_.Cancel();
  boost::system::error_code ignored;
  epoll_.close(ignored);
  watched_.clear();
  number_of_.clear();
}

void ConnectionWatch::State::Wait() {
  epoll_.async_wait(EpollDescriptor::wait_read,
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
    OnEnd(events[static_cast<std::size_t>(i)].data.fd);
  }
  if (epoll_.is_open()) {
    Wait();
  }
}

void ConnectionWatch::State::LookAgain() {
  look_.ArmAt(loop_.Now() + kLook, [this] { Look(); });
}

// Asked for and not waited for: a reader that is as fast as the sender leaves nothing to wake
// anybody.
void ConnectionWatch::State::Look() {
  std::vector<std::string> flooded;
  auto next = strangers_.upper_bound(looked_at_);
  for (std::size_t left = std::min(kMostAtOnce, strangers_.size()); left > 0; --left) {
    next = next == strangers_.end() ? strangers_.begin() : next;
    looked_at_ = *next;
    const bool too_much = BytesReceived(*next) > kMaxBytesOfStrangers;
    if (too_much) {
      EndNow(*next);
      flooded.push_back(watched_.at(*next).peer);
    }
    next = too_much ? strangers_.erase(next) : std::next(next);
  }
  if (!strangers_.empty()) {
    LookAgain();
  }
  for (const std::string& peer : flooded) {
    if (const auto told = flooded_) {
      told(peer);
    }
  }
}

void ConnectionWatch::State::OnEnd(int number) {
  const auto found = watched_.find(number);
  if (found == watched_.end()) {
    return;
  }
  // Not by closing the copy: the registration is of the connection, which the reader holds too.
  static_cast<void>(::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_DEL, number, nullptr));
  const std::string peer = std::move(found->second.peer);
  if (const auto own = number_of_.find(peer); own != number_of_.end() && own->second == number) {
    number_of_.erase(own);
  }
  strangers_.erase(number);
  watched_.erase(found);
  const auto closed = closed_;  // What it does may end this.
  closed(peer);
}

ConnectionWatch::ConnectionWatch(Loop& loop, Told closed, Told flooded)
    : state_(std::make_shared<State>(loop, std::move(closed), std::move(flooded))) {}

ConnectionWatch::~ConnectionWatch() {
  state_->Close();
}

std::string ConnectionWatch::Watch(int fd) {
  return state_->Watch(fd);
}

void ConnectionWatch::LetIn(const std::string& peer) {
  state_->LetIn(peer);
}

void ConnectionWatch::End(const std::string& peer) {
  state_->End(peer);
}

}  // namespace ddprun

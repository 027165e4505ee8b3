#include "rendezvous/listener/connection_watch.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "rendezvous/listener/bytes_received.h"
#include "rendezvous/listener/plain_address.h"
#include "rendezvous/listener/rejected.h"

namespace ddprun {
namespace {

// How often connections without an accepted call are looked at, and how many at a time.
constexpr Duration kLook{10};
constexpr std::size_t kMostAtOnce = 256;

// Empty: it has gone, or has no port.
std::string NameOfPeer(int fd) {
  const Endpoint peer = PeerOf(fd);
  return peer.host.empty() ? "" : ToString(peer);
}

// Without the port.
std::string AddressIn(const std::string& peer) {
  return peer.substr(0, peer.rfind(':'));
}

// Resets the connection for every holder and drops the bytes that have come. A shutdown would not
// do: bytes that a sender continues sending would still be read.
void EndNow(int fd) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  static_cast<void>(::connect(fd, &nobody, sizeof nobody));
}

}  // namespace

ConnectionWatch::ConnectionWatch(AsioLoop& loop, Told closed, Ended ended, std::size_t most,
                                 Duration patience)
    : loop_(loop),
      closed_(std::move(closed)),
      ended_(std::move(ended)),
      most_(most),
      patience_(patience),
      epoll_(loop.io()),
      look_(loop) {}

bool ConnectionWatch::Begin() {
  const int fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  epoll_.assign(fd);
  Wait();
  return true;
}

std::string ConnectionWatch::Watch(int fd) {
  if (!epoll_.is_open() && !Begin()) {
    return "";
  }
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  std::string peer = NameOfPeer(fd);
  if (copy.get() < 0 || peer.empty() || !LeavesRoom(copy.get()) || !IsRoomFor(peer)) {
    return "";
  }
  epoll_event event{};
  event.events = EPOLLRDHUP;
  event.data.u64 = next_;
  if (::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, copy.get(), &event) != 0) {
    return "";
  }
  const Number number = next_++;
  watched_[number] = {std::move(copy), peer};
  number_of_[peer] = number;
  unauthenticated_.Add(number, AddressIn(peer), loop_.Now());
  if (unauthenticated_.size() == 1) {
    LookAgain();
  }
  return peer;
}

bool ConnectionWatch::IsRoomFor(const std::string& peer) {
  if (unauthenticated_.size() < most_) {
    return true;
  }
  const auto who = unauthenticated_.ToEvict(AddressIn(peer), loop_.Now());
  if (who) {
    EndUnauthenticated(*who, "it made no permitted call, and there are too many such connections");
  }
  return who.has_value();
}

void ConnectionWatch::EndUnauthenticated(Number number, const std::string& why) {
  unauthenticated_.Remove(number);
  const Watched& watched = watched_.at(number);
  const std::string peer = watched.peer;
  EndNow(watched.copy.get());
  ended_(peer, why);
}

void ConnectionWatch::MarkAuthenticated(const std::string& peer) {
  const auto found = number_of_.find(peer);
  if (found != number_of_.end()) {
    unauthenticated_.Remove(found->second);
  }
}

void ConnectionWatch::Wait() {
  epoll_.async_wait(Epoll::wait_read, life_.Guard([this](boost::system::error_code error) {
    if (!error) {
      OnReady();
    }
  }));
}

void ConnectionWatch::OnReady() {
  std::array<epoll_event, 64> events{};
  const int count =
      ::epoll_wait(epoll_.native_handle(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    OnEnd(events[static_cast<std::size_t>(i)].data.u64);
  }
  Wait();
}

void ConnectionWatch::LookAgain() {
  look_.ArmAt(loop_.Now() + kLook, [this] { Look(); });
}

// Polls the received bytes: a wait would not see them if the reader is as fast as the sender and
// leaves nothing in the socket.
void ConnectionWatch::Look() {
  std::vector<Number> flooded;
  for (std::size_t left = std::min(kMostAtOnce, unauthenticated_.size()); left > 0; --left) {
    looked_at_ = unauthenticated_.After(looked_at_);
    if (BytesReceived(watched_.at(looked_at_).copy.get()) > kMaxUnauthenticatedBytes) {
      flooded.push_back(looked_at_);
    }
  }
  for (const Number number : flooded) {
    EndUnauthenticated(number, "it sent too much before a permitted call");
  }
  while (const auto silent = unauthenticated_.Since(loop_.Now() - patience_)) {
    EndUnauthenticated(*silent, "it made no permitted call within " + FormatDuration(patience_));
  }
  if (unauthenticated_.size() > 0) {
    LookAgain();
  }
}

void ConnectionWatch::OnEnd(Number number) {
  const auto found = watched_.find(number);
  if (found == watched_.end()) {
    return;
  }
  // Closing the copy is not enough: the registration is the connection's, which the reader holds
  // too.
  const int copy = found->second.copy.get();
  static_cast<void>(::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_DEL, copy, nullptr));
  const std::string peer = std::move(found->second.peer);
  if (const auto own = number_of_.find(peer); own != number_of_.end() && own->second == number) {
    number_of_.erase(own);
  }
  unauthenticated_.Remove(number);
  watched_.erase(found);
  closed_(peer);
}

}  // namespace ddprun

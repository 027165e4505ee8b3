#include "rendezvous/listener/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rendezvous/listener/first_bytes.h"
#include "rendezvous/listener/http2_refusal.h"
#include "rendezvous/listener/plain_address.h"

namespace ddprun {
namespace {

using Readiness = boost::asio::posix::descriptor_base;

constexpr int kAcceptsPerIteration = 64;
constexpr std::size_t kMaxHttp2Told = 64 * 1024;  // A first call is shorter.
// A fatal alert, protocol_version (RFC 8446, 6.2). After a plain close a client would try again.
constexpr std::string_view kNoTlsHere("\x15\x03\x01\x00\x02\x02\x46", 7);
constexpr Duration kPauseWithoutDescriptors{100};

// Makes a wait last until more than `bytes` have come. Peeked bytes stay in the socket and would
// otherwise end every wait at once.
void WaitForMoreThan(int fd, std::size_t bytes) {
  const int low_water = static_cast<int>(bytes) + 1;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof low_water);
}

// Reads what has come first: a close before that would reset the connection and lose the alert.
void RefuseTls(int fd) {
  std::array<char, 4096> hello;
  static_cast<void>(::recv(fd, hello.data(), hello.size(), 0));
  static_cast<void>(::send(fd, kNoTlsHere.data(), kNoTlsHere.size(), MSG_NOSIGNAL));
}

}  // namespace

Acceptor::Acceptor(AsioLoop& loop, AcceptorOptions options, AcceptorHandlers handlers)
    : loop_(loop),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      listener_(loop.io()),
      rejected_(loop, "rendezvous"),
      lines_(loop),
      expiry_(loop),
      pause_(loop) {}

void Acceptor::Start(UniqueFd listener) {
  listener_.assign(listener.Release());
  WaitForConnections();
}

void Acceptor::WaitForConnections() {
  listener_.async_wait(Readiness::wait_read, life_.Guard([this](boost::system::error_code error) {
    if (!error) {
      AcceptSome();
    }
  }));
}

void Acceptor::AcceptSome() {
  for (int i = 0; i < kAcceptsPerIteration; ++i) {
    const int fd =
        ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      const std::string address = PeerOf(fd).host;  // Connections of one machine are counted.
      Admit(fd, address.empty() ? "an unknown peer" : address);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      const std::string why = std::strerror(errno);
      lines_.Say(LogLevel::kWarning, "cannot accept connections for now",
                 "cannot accept connections for now, trying again: " + why);
      pause_.ArmAt(loop_.Now() + kPauseWithoutDescriptors, [this] { WaitForConnections(); });
      return;
    }
    // Any other error concerns only that one connection.
  }
  WaitForConnections();
}

void Acceptor::Admit(int fd, const std::string& address) {
  if (!LeavesRoom(fd)) {
    ::close(fd);
    rejected_.Note(address, "nearly all descriptors (ulimit -n) are in use [descriptor-limit]");
    return;
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  MakeRoomFor(address);
  Descriptor socket(loop_.io());
  boost::system::error_code error;
  socket.assign(fd, error);
  if (error) {
    ::close(fd);
    return;
  }
  const std::uint64_t id = next_id_++;
  const auto [pending, added] =
      pending_.emplace(id, PendingConnection{std::move(socket),
                                             loop_.Now() + options_.patience,
                                             0,
                                             {},
                                             Speaks::kUnknown,
                                             false,
                                             address});
  of_address_[address].insert(id);
  WaitForBytes(id, pending->second);
  ArmExpiry();
}

void Acceptor::MakeRoomFor(const std::string& address) {
  const std::size_t most = std::min(options_.max_undecided, OneDescriptorIn(8));
  const std::size_t most_of_one = std::min(options_.max_undecided_of_one, most);
  const auto own = of_address_.find(address);
  if (own != of_address_.end() && own->second.size() >= most_of_one) {
    Reject(pending_.find(*own->second.begin()),
           "it has not identified itself, and its address has too many such connections");
  } else if (pending_.size() >= most) {
    Reject(pending_.begin(),
           "it has not identified itself, and there are too many such connections");
  }
}

void Acceptor::WaitForBytes(std::uint64_t id, PendingConnection& pending) {
  pending.socket.async_wait(Readiness::wait_read,
                            life_.Guard([this, id](boost::system::error_code error) {
                              const auto pending = pending_.find(id);
                              if (!error && pending != pending_.end()) {
                                OnReadable(pending);
                              }
                            }));
}

void Acceptor::OnReadable(PendingConnections::iterator pending) {
  switch (pending->second.speaks) {
    case Speaks::kUnknown:
      return Decide(pending);
    case Speaks::kHttp:
      return ReadRequest(pending);
    case Speaks::kHttp2:
      return ReadCall(pending);
  }
}

void Acceptor::Decide(PendingConnections::iterator pending) {
  const int fd = pending->second.socket.native_handle();
  std::array<char, kMaxFirstBytes> bytes;
  const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), MSG_PEEK);
  // Readable, but with no more bytes than last time: the other side has closed, or failed.
  if (count <= static_cast<ssize_t>(pending->second.seen)) {
    Remove(pending);
    return;
  }
  pending->second.seen = static_cast<std::size_t>(count);
  switch (ProtocolOf({bytes.data(), pending->second.seen})) {
    case Protocol::kUndecided:
      WaitForMoreThan(fd, pending->second.seen);
      WaitForBytes(pending->first, pending->second);
      return;
    case Protocol::kGrpc:
      if (handlers_.grpc || options_.refusal.empty()) {
        HandOver(pending, handlers_.grpc);
        return;
      }
      WaitForMoreThan(fd, 0);
      pending->second.speaks = Speaks::kHttp2;
      static_cast<void>(::send(fd, kHttp2Greeting.data(), kHttp2Greeting.size(), MSG_NOSIGNAL));
      ReadCall(pending);
      return;
    case Protocol::kTls:
      if (!handlers_.tls) {
        RefuseTls(fd);
      }
      HandOver(pending, handlers_.tls);
      return;
    case Protocol::kStore:
      HandOver(pending, handlers_.store);
      return;
    case Protocol::kHttp:
      WaitForMoreThan(fd, 0);
      pending->second.speaks = Speaks::kHttp;
      ReadRequest(pending);
      return;
    case Protocol::kUnknown:
      Reject(pending, "unrecognised protocol");
      return;
  }
}

void Acceptor::ReadRequest(PendingConnections::iterator pending) {
  const int fd = pending->second.socket.native_handle();
  std::string& request = pending->second.request;
  std::array<char, kMaxHttpRequest> bytes;
  const ssize_t count = ::recv(fd, bytes.data(), bytes.size() - request.size(), 0);
  if (count <= 0) {
    Remove(pending);
    return;
  }
  request.append(bytes.data(), static_cast<std::size_t>(count));
  if (handlers_.http && AsksSomethingElse(request)) {
    std::string begun = std::move(request);
    UniqueFd connection(pending->second.socket.release());
    Remove(pending);
    handlers_.http(std::move(connection), std::move(begun));
    return;
  }
  const std::optional<std::string> reply = HttpReply(request, options_.health);
  if (!reply) {
    WaitForBytes(pending->first, pending->second);
    return;
  }
  // So short a reply fits into the empty send buffer of a new connection.
  if (::send(fd, reply->data(), reply->size(), MSG_NOSIGNAL) > 0) {
    ::shutdown(fd, SHUT_WR);
  }
  Remove(pending);
}

// After the refusal was sent, later bytes are read and dropped: a close before that would reset the
// connection and lose the refusal. `seen` counts all bytes that were read.
void Acceptor::ReadCall(PendingConnections::iterator pending) {
  const int fd = pending->second.socket.native_handle();
  std::string& call = pending->second.request;
  std::array<char, kMaxHttp2Beginning> bytes;
  const ssize_t count = ::recv(fd, bytes.data(), bytes.size() - call.size(), 0);
  if (count <= 0) {
    Remove(pending);
    return;
  }
  pending->second.seen += static_cast<std::size_t>(count);
  if (!pending->second.told) {
    call.append(bytes.data(), static_cast<std::size_t>(count));
    const std::optional<std::string> end = RefuseHttp2Call(call, options_.refusal);
    if (end && !end->empty()) {
      static_cast<void>(::send(fd, end->data(), end->size(), MSG_NOSIGNAL));
      ::shutdown(fd, SHUT_WR);
      pending->second.told = true;
      call.clear();
      if (handlers_.refused) {
        handlers_.refused(pending->second.address);
      }
    } else if (end || call.size() == kMaxHttp2Beginning) {
      Reject(pending, "its HTTP/2 does not begin with a call");
      return;
    }
  }
  if (pending->second.seen > kMaxHttp2Told) {
    Remove(pending);
    return;
  }
  WaitForBytes(pending->first, pending->second);
}

void Acceptor::HandOver(PendingConnections::iterator pending,
                        const std::function<void(UniqueFd)>& to) {
  WaitForMoreThan(pending->second.socket.native_handle(), 0);
  UniqueFd fd(pending->second.socket.release());
  Remove(pending);
  if (to) {
    to(std::move(fd));
  }
}

void Acceptor::Remove(PendingConnections::iterator pending) {
  const auto own = of_address_.find(pending->second.address);
  own->second.erase(pending->first);
  if (own->second.empty()) {
    of_address_.erase(own);
  }
  pending_.erase(pending);
  ArmExpiry();
}

void Acceptor::Reject(PendingConnections::iterator pending, std::string_view reason) {
  rejected_.Note(pending->second.address, reason);
  Remove(pending);
}

// One timer for all: each connection has the same patience, so the oldest one is always the next.
void Acceptor::ArmExpiry() {
  if (pending_.empty()) {
    expiry_.Cancel();
    return;
  }
  expiry_.ArmAt(pending_.begin()->second.deadline, [this] {
    while (!pending_.empty() && pending_.begin()->second.deadline <= loop_.Now()) {
      Reject(pending_.begin(), "it has not identified itself in time");
    }
    ArmExpiry();
  });
}

}  // namespace ddprun

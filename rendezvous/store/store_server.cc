#include "rendezvous/store/store_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "common/endpoint.h"
#include "common/slug.h"
#include "rendezvous/listener/plain_address.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::size_t kReadBytes = 256 << 10;
constexpr std::size_t kWriteBytes = 64 << 10;
constexpr int kAcceptsPerIteration = 64;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

std::string NameOf(const tcp::endpoint& endpoint) {
  return ToString(Endpoint{endpoint.address().to_string(), endpoint.port()});
}

}  // namespace

StoreServer::StoreServer(AsioLoop& loop, const StoreOptions& options)
    : loop_(loop),
      options_(options),
      table_(options.max_store_bytes),
      acceptor_(loop.io()),
      accept_again_(loop),
      silence_(loop),
      read_buffer_(kReadBytes),
      write_buffer_(kWriteBytes),
      rejected_(loop, "store"),
      refused_(loop) {}

void StoreServer::Serve(UniqueFd listener) {
  CHECK(!acceptor_.is_open());
  sockaddr_storage local{};
  socklen_t size = sizeof(local);
  CHECK(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&local), &size) == 0);
  acceptor_.assign(local.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), listener.Release());
  ArmAccept();
}

void StoreServer::ArmAccept() {
  acceptor_.async_wait(tcp::acceptor::wait_read,
                       life_.Guard([this](boost::system::error_code error) {
                         if (!error && acceptor_.is_open() && !Over()) {
                           AcceptAll();
                         }
                       }));
}

// accept4, since Asio's accept leaves the descriptor open for a worker started in between.
void StoreServer::AcceptAll() {
  for (int i = 0; i < kAcceptsPerIteration; ++i) {
    const int fd = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) {
      Adopt(fd);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      rejected_.Note("an unknown client", SystemError("accept", "a store client", errno).message);
      accept_again_.ArmAt(loop_.Now() + kAcceptPause, [this] { ArmAccept(); });
      return;
    }
  }
  ArmAccept();
}

void StoreServer::Adopt(int socket) {
  loop_.CheckOnLoop();
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  sockaddr_storage local{};
  socklen_t size = sizeof(local);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&local), &size) != 0) {
    ::close(socket);
    return;
  }
  boost::system::error_code error;
  tcp::socket owned(loop_.io());
  owned.assign(local.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), socket, error);
  if (error) {
    ::close(socket);
    return;
  }
  const tcp::endpoint peer = owned.remote_endpoint(error);
  if (error) {
    return;  // Gone already.
  }
  const tcp::endpoint own = owned.local_endpoint(error);
  const SocketPeer end = FindSocketPeer(peer, own);
  auto why_not = options_.allowed.WhyNot(peer.address(), own.address(), end, ::geteuid());
  if (why_not && std::holds_alternative<ClosedPeer>(end)) {
    char byte = 0;
    if (::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) {
      return;  // The client has sent nothing.
    }
    why_not =
        "it was closed before its owner was known, so its data was dropped (--store-allow=any "
        "accepts it)";
  }
  if (why_not && !std::holds_alternative<ClosedPeer>(end)) {
    rejected_.Note(NameOf(peer), *why_not);
    const bool here = std::holds_alternative<LocalPeer>(end);  // Its user, not its address.
    refused_.Take(std::move(owned), here ? "any" : Plain(peer.address()).to_string(),
                  WithoutSlug(*why_not));
    return;
  }
  if (!why_not && (connections_.size() >= options_.max_connections || !LeavesRoom(socket))) {
    why_not = "there are too many connections already";
  }
  if (why_not) {
    rejected_.Note(NameOf(peer), *why_not);
    return;
  }
  owned.remote_endpoint(error);
  if (error) {
    return;  // Gone meanwhile: the kernel's answer may be about the next one from that port.
  }
  owned.non_blocking(true, error);
  owned.set_option(tcp::no_delay(true), error);
  owned.set_option(tcp::socket::keep_alive(true), error);
  last_id_ = last_id_.Next();
  const auto placed = connections_.emplace(
      last_id_, Connection{std::move(owned), NameOf(peer), StoreParser(options_.limits), {}, {}});
  silent_until_.emplace_back(loop_.Now() + options_.validate_timeout, last_id_);
  if (silent_until_.size() == 1) {
    silence_.ArmAt(silent_until_.front().first, [this] { ExpireSilent(); });
  }
  ArmRead(last_id_, placed.first->second);
}

void StoreServer::ArmRead(StoreClientId id, Connection& connection) {
  if (std::exchange(connection.reading, true)) {
    return;
  }
  connection.socket.async_wait(tcp::socket::wait_read,
                               life_.Guard([this, id](boost::system::error_code error) {
                                 if (!error) {
                                   OnReadable(id);
                                 }
                               }));
}

void StoreServer::ArmWrite(StoreClientId id, Connection& connection) {
  connection.socket.async_wait(tcp::socket::wait_write,
                               life_.Guard([this, id](boost::system::error_code error) {
                                 if (!error) {
                                   OnWritable(id);
                                 }
                               }));
}

void StoreServer::OnReadable(StoreClientId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || Over()) {
    return;
  }
  Connection& connection = found->second;
  connection.reading = false;
  if (!connection.output.empty()) {
    return;  // A wait was answered meanwhile; OnWritable reads on.
  }
  boost::system::error_code error;
  const std::size_t size = connection.socket.read_some(asio::buffer(read_buffer_), error);
  if (error == asio::error::would_block || error == asio::error::interrupted) {
    ArmRead(id, connection);
  } else if (error) {
    Drop(id, {});
  } else {
    Process(id, {read_buffer_.data(), size});
  }
}

void StoreServer::OnWritable(StoreClientId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || Over()) {
    return;
  }
  if (!Flush(id, found->second)) {
    KeepBounds(id);
    return;
  }
  const std::string unread = std::exchange(found->second.unread, {});
  Process(id, unread);
}

// Every way through ends with the connection dropped, armed to read, or armed to write.
void StoreServer::Process(StoreClientId id, std::string_view bytes) {
  for (;;) {
    const auto found = connections_.find(id);
    if (found == connections_.end() || Over()) {
      return;
    }
    Connection& connection = found->second;
    if (!connection.output.empty()) {
      connection.unread.assign(bytes);
      break;
    }
    auto request = connection.parser.Parse(bytes);
    if (!request) {
      Drop(id, request.error().message);
      return;
    }
    if (!*request) {
      ArmRead(id, connection);
      break;
    }
    if (const auto done = table_.Apply(id, **std::move(request), answers_); !done) {
      Drop(id, done.error().message);
      return;
    }
    Deliver();
  }
  KeepBounds(id);
}

// Sends what the table answered. A connection that breaks here may free answers for others.
void StoreServer::Deliver() {
  if (delivering_) {
    return;
  }
  delivering_ = true;
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    const StoreClientId id = answers_[i].client;
    const auto found = connections_.find(id);
    if (found == connections_.end()) {
      continue;
    }
    Connection& connection = found->second;
    const bool armed = !connection.output.empty();
    connection.output.Append(answers_[i].reply);
    if (!armed && !Flush(id, connection)) {
      KeepBounds(id);
    }
  }
  answers_.clear();
  delivering_ = false;
}

// Whether all is sent. If not, the connection is armed to write, or was dropped. One write, since
// an answer may be long and its reader quick.
bool StoreServer::Flush(StoreClientId id, Connection& connection) {
  const std::string_view next = connection.output.Next(write_buffer_);
  boost::system::error_code error;
  const std::size_t sent =
      connection.socket.write_some(asio::buffer(next.data(), next.size()), error);
  if (error && error != asio::error::would_block && error != asio::error::interrupted) {
    Drop(id, {});
    return false;
  }
  connection.output.Consume(sent);
  if (!connection.output.empty()) {
    ArmWrite(id, connection);
    return false;
  }
  return true;
}

// An empty reason: the peer ended it.
void StoreServer::Drop(StoreClientId id, std::string_view reason) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) {
    return;
  }
  if (!reason.empty()) {
    rejected_.Note(found->second.peer, reason);
  }
  traffic_ -= found->second.held;
  connections_.erase(found);
  table_.Forget(id, answers_);
  Deliver();
}

void StoreServer::KeepBounds(StoreClientId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) {
    return;
  }
  Connection& connection = found->second;
  traffic_ -= connection.held;
  connection.held = connection.parser.held() + connection.output.held() + connection.unread.size();
  traffic_ += connection.held;
  if (connection.held > options_.max_connection_bytes) {
    Drop(id, "its unfinished request and unsent replies exceed " +
                 std::to_string(options_.max_connection_bytes) + " bytes");
  } else if (traffic_ > options_.max_traffic_bytes) {
    DropLargest();
  }
}

// All are looked at, so some more room is made than is needed now.
void StoreServer::DropLargest() {
  std::vector<std::pair<std::size_t, StoreClientId>> holders;
  holders.reserve(connections_.size());
  for (const auto& [id, connection] : connections_) {
    holders.emplace_back(connection.held, id);
  }
  std::sort(holders.rbegin(), holders.rend());
  const std::size_t enough = options_.max_traffic_bytes - options_.max_traffic_bytes / 8;
  for (const auto& [held, id] : holders) {
    if (traffic_ <= enough) {
      return;
    }
    Drop(id, "unfinished requests and unsent replies of all connections exceed " +
                 std::to_string(options_.max_traffic_bytes) + " bytes, and it holds the most");
  }
}

void StoreServer::ExpireSilent() {
  const Time now = loop_.Now();
  while (!silent_until_.empty() && silent_until_.front().first <= now) {
    const StoreClientId id = silent_until_.front().second;
    silent_until_.pop_front();
    const auto found = connections_.find(id);
    if (found != connections_.end() && !found->second.parser.validated()) {
      Drop(id, "it has not identified itself within " + FormatDuration(options_.validate_timeout));
    }
  }
  if (!silent_until_.empty()) {
    silence_.ArmAt(silent_until_.front().first, [this] { ExpireSilent(); });
  }
}

}  // namespace ddprun

#include "rendezvous/listener/hello.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "common/files.h"
#include "rendezvous/listener/http.h"
#include "rendezvous/listener/ready_within.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxReply = 4096;
constexpr std::size_t kQuoted = 40;  // Bytes of a foreign answer that are shown.

// Zero, or the errno.
int Connect(const addrinfo& address, Clock::time_point deadline, UniqueFd& fd) {
  fd = UniqueFd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return errno;
  }
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) {
    return 0;
  }
  if (errno != EINPROGRESS) {
    return errno;
  }
  if (!ReadyWithin(fd.get(), POLLOUT, deadline)) {
    return ETIMEDOUT;
  }
  int error_number = 0;
  socklen_t size = sizeof error_number;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error_number, &size);
  return error_number;
}

}  // namespace

Result<UniqueFd> ConnectWithin(const Endpoint& endpoint, const std::string& what,
                               Clock::time_point deadline) {
  const std::string tried = "cannot reach " + what + ToString(endpoint) + ": ";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(),
                                     &hints, &found);
      code != 0) {
    return Error{ErrorKind::kUnavailable, tried + ::gai_strerror(code)};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  int error_number = EADDRNOTAVAIL;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    UniqueFd fd;
    error_number = Connect(*address, deadline, fd);
    if (error_number == 0) {
      return fd;
    }
  }
  return Error{ErrorKind::kUnavailable, tried + std::strerror(error_number)};
}

namespace {

// The bytes that came until the peer closed, the deadline passed or enough was read.
std::string ReadReply(int fd, Clock::time_point deadline) {
  std::string reply;
  char buffer[kMaxReply];
  while (reply.size() < kMaxReply && ReadyWithin(fd, POLLIN, deadline)) {
    const ssize_t count = ::recv(fd, buffer, kMaxReply - reply.size(), 0);
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) {
      break;
    }
    reply.append(buffer, count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  return reply;
}

std::string Quote(std::string_view bytes) {
  std::string shown(bytes.substr(0, std::min(kQuoted, bytes.find_first_of("\r\n"))));
  for (char& c : shown) {
    c = c >= 0x20 && c < 0x7f ? c : '?';
  }
  return "'" + shown + "'";
}

// Of a health report: the text after `name` on its line; empty: there is no such line.
std::string LineOf(std::string_view body, std::string_view name) {
  const std::size_t line = body.find('\n' + std::string(name));
  if (line == std::string_view::npos) {
    return "";
  }
  body.remove_prefix(line + 1 + name.size());
  return std::string(body.substr(0, body.find('\n')));
}

// The health report.
Result<std::string> Ask(const Endpoint& endpoint, const std::string& path, Duration timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  ASSIGN_OR_RETURN(const UniqueFd fd, ConnectWithin(endpoint, "the rendezvous at ", deadline));
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  // A new connection's send buffer is empty: so few bytes are taken whole.
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    return SystemError("greet the rendezvous at", ToString(endpoint), errno);
  }
  const std::string reply = ReadReply(fd.get(), deadline);
  const std::size_t body = reply.find("\r\n\r\n");
  if (reply.starts_with("HTTP/1.0 200") && body != std::string::npos &&
      std::string_view(reply).substr(body + 4).starts_with(kHealthGreeting)) {
    return reply.substr(body + 4);
  }
  const std::string what = "the listener at " + ToString(endpoint);
  if (!reply.empty()) {
    return Error{ErrorKind::kRefused,
                 what + " is not a ddprun rendezvous: it answered " + Quote(reply)};
  }
  if (Clock::now() < deadline) {
    return Error{ErrorKind::kUnavailable, what + " closed the connection without an answer"};
  }
  return Error{ErrorKind::kUnavailable, what + " did not answer within " + FormatDuration(timeout)};
}

}  // namespace

Result<void> Hello(const Endpoint& endpoint, Duration timeout) {
  RETURN_IF_ERROR(Ask(endpoint, "/healthz", timeout));
  return {};
}

Result<std::string> AskSealed(const Endpoint& endpoint, Duration timeout) {
  ASSIGN_OR_RETURN(const std::string report, Ask(endpoint, "/healthz?sealed", timeout));
  return LineOf(report, kHealthSealed);
}

}  // namespace ddprun

#include "launcher/check/check_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "rendezvous/door/ready_within.h"

namespace ddprun {
namespace {

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Result<AddressList> AddressesOf(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      error != 0) {
    return Error{ErrorKind::kUnavailable,
                 "cannot look up '" + host + "': " + ::gai_strerror(error)};
  }
  return AddressList(found, ::freeaddrinfo);
}

Error NoAnswer(const char* of) {
  return Error{ErrorKind::kUnavailable, std::string("no answer in time while ") + of};
}

void SendAtOnce(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Result<UniqueFd> ConnectTo(const Endpoint& endpoint, CheckTime deadline) {
  ASSIGN_OR_RETURN(const AddressList found, AddressesOf(endpoint.host, endpoint.port));
  const std::string name = ToString(endpoint);
  UniqueFd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    return SystemError("make a socket to", name, errno);
  }
  if (::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return SystemError("connect to", name, errno);
  }
  if (!ReadyWithin(socket.get(), POLLOUT, deadline)) {
    return Error{ErrorKind::kUnavailable, "cannot connect to " + name + ": no answer"};
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    return SystemError("connect to", name, error);
  }
  SendAtOnce(socket.get());
  return socket;
}

UniqueFd AcceptNow(int listener) {
  UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) {
    SendAtOnce(socket.get());
  }
  return socket;
}

std::string OwnAddressOf(int socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char text[NI_MAXHOST] = "";
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return "";
  }
  return text;
}

Result<void> SendBytes(int socket, std::string_view bytes, CheckTime deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      return SystemError("send to", "a node of this check", errno);
    } else if (!ReadyWithin(socket, POLLOUT, deadline)) {
      return NoAnswer("sending");
    }
  }
  return {};
}

Result<std::string> ReceiveBytes(int socket, std::size_t size, CheckTime deadline) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = ::recv(socket, bytes.data() + have, size - have, 0);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
    } else if (got == 0) {
      return Error{ErrorKind::kUnavailable, "the other node has closed the connection"};
    } else if (errno != EAGAIN && errno != EINTR) {
      return SystemError("hear", "a node of this check", errno);
    } else if (!ReadyWithin(socket, POLLIN, deadline)) {
      return NoAnswer("listening");
    }
  }
  return bytes;
}

// A length of eight digits, and so many bytes.
Result<void> SendJson(int socket, const nlohmann::json& json, CheckTime deadline) {
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string length = std::to_string(text.size());
  length.insert(0, 8 - std::min<std::size_t>(8, length.size()), '0');
  return SendBytes(socket, length + text, deadline);
}

Result<CheckMessage> ReceiveJson(int socket, CheckTime deadline) {
  ASSIGN_OR_RETURN(const std::string length, ReceiveBytes(socket, 8, deadline));
  std::size_t size = 0;
  for (const char digit : length) {
    if (digit < '0' || digit > '9') {
      return Error{ErrorKind::kInvalid, "a node of this check speaks another language"};
    }
    size = size * 10 + static_cast<std::size_t>(digit - '0');
  }
  if (size > kMostCheckMessage) {
    return Error{ErrorKind::kInvalid, "a node of this check says too much"};
  }
  ASSIGN_OR_RETURN(const std::string text, ReceiveBytes(socket, size, deadline));
  nlohmann::json json = ParseJson(text);
  if (!json.is_object()) {
    return Error{ErrorKind::kInvalid, "a node of this check says what cannot be read"};
  }
  return CheckMessage{std::move(json)};
}

}  // namespace ddprun

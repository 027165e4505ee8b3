#include "launcher/check/exchange.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include "rendezvous/door/hello.h"
#include "rendezvous/door/ready_within.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Duration kPairPatience{5'000};
constexpr Duration kCallerPatience{20'000};  // The other node may have another pair before.
constexpr auto kPinging = std::chrono::milliseconds(500);
constexpr std::size_t kMostPings = 200;
constexpr auto kSending = std::chrono::milliseconds(500);
constexpr auto kDraining = std::chrono::seconds(8);  // What is on its way when the sending ends.
constexpr int kPiece = 256 << 10;
constexpr char kPing = 'p';
constexpr char kGo = 'g';

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Each wait on it has this limit from now on.
void SetPatience(int socket, Duration patience) {
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) & ~O_NONBLOCK);
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int unsent = kPiece;  // Else a slow link has seconds of them when the sending ends.
  ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  const timeval limit{static_cast<time_t>(patience.count() / 1'000),
                      static_cast<suseconds_t>(patience.count() % 1'000 * 1'000)};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

Error Failure(const char* tried) {
  return errno == EAGAIN
             ? Error{ErrorKind::kUnavailable, std::string("no answer in time: cannot ") + tried}
             : SystemError(tried, "the other node", errno);
}

// For kSending, then says so by closing this direction.
Result<void> SendForAWhile(int socket) {
  const std::string piece(kPiece, 'x');
  const Clock::time_point stop = Clock::now() + kSending;
  while (Clock::now() < stop) {
    RETURN_IF_ERROR(SendBytes(socket, piece));
  }
  ::shutdown(socket, SHUT_WR);
  return {};
}

// Bytes a second until the other node's end. What is later than kDraining does not count.
Result<double> CountWhatComes(int socket) {
  std::vector<char> piece(kPiece);
  double bytes = 0;
  double took = 0;
  RETURN_IF_ERROR(ReceiveBytes(socket, 1));  // The other direction may take its time before.
  const Clock::time_point begin = Clock::now();
  while (Clock::now() < begin + kSending + kDraining) {
    const ssize_t got = ::recv(socket, piece.data(), piece.size(), 0);
    if (got < 0) {
      return Failure("hear");
    }
    if (got == 0) {
      break;
    }
    bytes += static_cast<double>(got);
    took = SecondsSince(begin);
  }
  return took > 0 ? bytes / took : 0;
}

}  // namespace

Result<UniqueFd> ConnectTo(const Endpoint& endpoint, Duration patience) {
  ASSIGN_OR_RETURN(UniqueFd socket, ConnectWithin(endpoint, "", Clock::now() + patience));
  SetPatience(socket.get(), patience);
  return socket;
}

std::string OwnAddressOf(int socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char text[NI_MAXHOST] = "";
  const bool known = ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                     ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text,
                                   nullptr, 0, NI_NUMERICHOST) == 0;
  return known ? text : "";
}

Result<void> SendBytes(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      return Failure("send to");
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<std::string> ReceiveBytes(int socket, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t have = 0; have < size;) {
    const ssize_t got = ::recv(socket, bytes.data() + have, size - have, 0);
    if (got < 0) {
      return Failure("hear");
    }
    if (got == 0) {
      return Error{ErrorKind::kUnavailable, "the other node has closed the connection"};
    }
    have += static_cast<std::size_t>(got);
  }
  return bytes;
}

Result<Exchanged> CallPair(const Endpoint& other) {
  ASSIGN_OR_RETURN(const UniqueFd socket, ConnectTo(other, kPairPatience));
  std::vector<double> pings;
  const Clock::time_point enough = Clock::now() + kPinging;
  while (pings.empty() || (pings.size() < kMostPings && Clock::now() < enough)) {
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(SendBytes(socket.get(), {&kPing, 1}));
    RETURN_IF_ERROR(ReceiveBytes(socket.get(), 1));
    pings.push_back(SecondsSince(begin));
  }
  std::ranges::nth_element(pings, pings.begin() + static_cast<std::ptrdiff_t>(pings.size() / 2));
  Exchanged exchanged{.latency = pings[pings.size() / 2]};
  RETURN_IF_ERROR(SendBytes(socket.get(), {&kGo, 1}));
  RETURN_IF_ERROR(SendForAWhile(socket.get()));
  ASSIGN_OR_RETURN(exchanged.received, CountWhatComes(socket.get()));
  return exchanged;
}

Result<Exchanged> ServePair(int listener) {
  if (!ReadyWithin(listener, POLLIN, Clock::now() + kCallerPatience)) {
    return Error{ErrorKind::kUnavailable, "no answer in time: the other node did not connect"};
  }
  const UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) {
    return Failure("accept");
  }
  SetPatience(socket.get(), kPairPatience);
  ASSIGN_OR_RETURN(std::string word, ReceiveBytes(socket.get(), 1));
  while (word.front() != kGo) {
    RETURN_IF_ERROR(SendBytes(socket.get(), word));
    ASSIGN_OR_RETURN(word, ReceiveBytes(socket.get(), 1));
  }
  ASSIGN_OR_RETURN(const double received, CountWhatComes(socket.get()));
  RETURN_IF_ERROR(SendForAWhile(socket.get()));
  return Exchanged{.received = received};
}

}  // namespace ddprun

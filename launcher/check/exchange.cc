#include "launcher/check/exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "launcher/check/arrivals.h"

namespace ddprun {
namespace {

using std::chrono::seconds;

constexpr auto kPairMeeting = seconds(5);
constexpr auto kPinging = std::chrono::milliseconds(500);
constexpr std::size_t kMostPings = 200;
constexpr auto kSending = seconds(1);
constexpr auto kDraining = seconds(8);  // What is on its way when the sending ends.
constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr char kPing = 'p';
constexpr char kGo = 'g';

double SecondsSince(CheckTime begin) {
  return std::chrono::duration<double>(CheckClock::now() - begin).count();
}

// Of a slow link too: what has not come within the time does not count, and an end that was tired
// of waiting resets what is still on its way.
Result<double> SendAndCount(int socket) {
  std::vector<char> out(kPiece, 'x');
  std::vector<char> in(kPiece);
  const CheckTime begin = CheckClock::now();
  const CheckTime stop = begin + kSending;
  bool sending = true;
  double bytes = 0;
  double took = 0;
  while (CheckClock::now() < stop + kDraining) {
    if (sending && CheckClock::now() >= stop) {
      ::shutdown(socket, SHUT_WR);
      sending = false;
    }
    pollfd wait{socket, static_cast<short>(POLLIN | (sending ? POLLOUT : 0)), 0};
    if (::poll(&wait, 1, 100) < 0 && errno != EINTR) {
      return SystemError("wait for", "the other node", errno);
    }
    if ((wait.revents & POLLOUT) != 0 && ::send(socket, out.data(), out.size(), MSG_NOSIGNAL) < 0 &&
        errno != EAGAIN) {
      return SystemError("send to", "the other node", errno);
    }
    if ((wait.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      const ssize_t got = ::recv(socket, in.data(), in.size(), 0);
      if (got == 0 || (got < 0 && errno == ECONNRESET && bytes > 0)) {
        break;
      }
      if (got < 0 && errno != EAGAIN && errno != EINTR) {
        return SystemError("hear", "the other node", errno);
      }
      bytes += got > 0 ? static_cast<double>(got) : 0;
      took = got > 0 ? SecondsSince(begin) : took;
    }
  }
  if (sending) {
    ::shutdown(socket, SHUT_WR);
  }
  return took > 0 ? bytes / took : 0;
}

}  // namespace

Result<Exchanged> CallPair(const Endpoint& other, const std::string& number) {
  ASSIGN_OR_RETURN(const UniqueFd socket, ConnectTo(other, CheckClock::now() + kPairMeeting));
  RETURN_IF_ERROR(SendBytes(socket.get(), number, CheckClock::now() + kPairMeeting));
  std::vector<double> pings;
  const CheckTime enough = CheckClock::now() + kPinging;
  while (pings.empty() || (pings.size() < kMostPings && CheckClock::now() < enough)) {
    const CheckTime begin = CheckClock::now();
    RETURN_IF_ERROR(SendBytes(socket.get(), {&kPing, 1}, begin + kPairMeeting));
    ASSIGN_OR_RETURN(const std::string pong, ReceiveBytes(socket.get(), 1, begin + kPairMeeting));
    pings.push_back(SecondsSince(begin));
  }
  RETURN_IF_ERROR(SendBytes(socket.get(), {&kGo, 1}, CheckClock::now() + kPairMeeting));
  Exchanged exchanged;
  std::ranges::nth_element(pings, pings.begin() + static_cast<std::ptrdiff_t>(pings.size() / 2));
  exchanged.latency = pings[pings.size() / 2];
  ASSIGN_OR_RETURN(exchanged.received, SendAndCount(socket.get()));
  return exchanged;
}

Result<Exchanged> ServePair(int listener, const std::string& number) {
  ASSIGN_OR_RETURN(const UniqueFd socket,
                   Arrivals(listener, number).Next(CheckClock::now() + kPairMeeting));
  std::string word;
  while (word != std::string(1, kGo)) {
    const CheckTime patience = CheckClock::now() + kPairMeeting;
    if (!word.empty()) {
      RETURN_IF_ERROR(SendBytes(socket.get(), word, patience));
    }
    ASSIGN_OR_RETURN(word, ReceiveBytes(socket.get(), 1, patience));
  }
  Exchanged exchanged;
  ASSIGN_OR_RETURN(exchanged.received, SendAndCount(socket.get()));
  return exchanged;
}

}  // namespace ddprun

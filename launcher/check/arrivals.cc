#include "launcher/check/arrivals.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

enum class Heard { kPart, kNumber, kStranger };

Heard HearNumber(int socket, const std::string& number, std::string& said) {
  std::string bytes(number.size() - said.size(), '\0');
  const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return Heard::kPart;
  }
  said.append(bytes, 0, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return got <= 0 || !number.starts_with(said) ? Heard::kStranger
         : said.size() < number.size()         ? Heard::kPart
                                               : Heard::kNumber;
}

bool IsShortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

}  // namespace

Arrivals::Arrivals(int listener, std::string number, ArrivalLimits limits)
    : listener_(listener), number_(std::move(number)), limits_(limits) {}

// One that comes in each turn, so that who has said the number is heard before others push it out.
Result<UniqueFd> Arrivals::Next(CheckTime deadline) {
  while (CheckClock::now() < deadline) {
    const bool comes = Wait(deadline);
    if (UniqueFd socket = HearAll()) {
      return socket;
    }
    if (comes) {
      RETURN_IF_ERROR(Accept());
    }
  }
  return Error{ErrorKind::kUnavailable, "no answer in time while waiting for a connection"};
}

// Whether somebody comes.
bool Arrivals::Wait(CheckTime deadline) {
  std::vector<pollfd> items{{listener_, POLLIN, 0}};
  for (const Guest& guest : guests_) {
    items.push_back({guest.socket.get(), POLLIN, 0});
  }
  const CheckTime end = guests_.empty() ? deadline : std::min(deadline, guests_.front().until);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - CheckClock::now()).count();
  const int ready = ::poll(items.data(), items.size(),
                           static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
  return ready > 0 && items.front().revents != 0;
}

UniqueFd Arrivals::HearAll() {
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const Heard heard = HearNumber(guest->socket.get(), number_, guest->said);
    if (heard == Heard::kNumber) {
      UniqueFd socket = std::move(guest->socket);
      guests_.erase(guest);
      return socket;
    }
    const bool goes = heard == Heard::kStranger || guest->until <= CheckClock::now();
    guest = goes ? guests_.erase(guest) : std::next(guest);
  }
  return {};
}

Result<void> Arrivals::Accept() {
  UniqueFd socket = AcceptNow(listener_);
  while (!socket && IsShortage(errno) && !guests_.empty()) {
    guests_.pop_front();
    socket = AcceptNow(listener_);
  }
  if (!socket) {  // But for a shortage it is the fate of that one connection.
    return IsShortage(errno)
               ? Result<void>(SystemError("accept", "a connection of another node", errno))
               : Result<void>();
  }
  if (guests_.size() >= limits_.most) {
    guests_.pop_front();
  }
  guests_.push_back({std::move(socket), CheckClock::now() + limits_.patience, {}});
  return {};
}

}  // namespace ddprun

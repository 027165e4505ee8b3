#include "agent/watch/worker_answer.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "common/files.h"
#include "rendezvous/listener/ready_within.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

bool IsOf(int fd, int pid) {
  ucred listener{};
  socklen_t size = sizeof listener;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &listener, &size) == 0 && listener.pid == pid;
}

}  // namespace

bool AskWorker(const std::string& socket, int pid, std::string_view question, std::size_t most,
               Clock::time_point deadline, const std::function<void(std::string_view)>& put) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!AtUnixPath(::connect, fd.get(), socket) ||  // With a full queue it answers no one.
      !IsOf(fd.get(), pid) ||
      ::send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(question.size())) {
    return false;
  }
  for (std::size_t taken = 0; taken < most && ReadyWithin(fd.get(), POLLIN, deadline);) {
    char bytes[16 * 1024];
    const ssize_t got = ::recv(fd.get(), bytes, std::min(sizeof bytes, most - taken), 0);
    if (got == 0) {
      return taken > 0;
    }
    if (got < 0) {
      return false;
    }
    put({bytes, static_cast<std::size_t>(got)});
    taken += static_cast<std::size_t>(got);
  }
  return false;
}

}  // namespace ddprun

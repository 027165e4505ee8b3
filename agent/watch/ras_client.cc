#include "agent/watch/ras_client.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <set>

#include "agent/host/interfaces.h"
#include "agent/workers/process_tree.h"
#include "common/endpoint.h"
#include "rendezvous/door/ready_within.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstWord{300};  // A process that runs answers at once.
constexpr int kMostTries = 4;
constexpr std::size_t kMostOfGreeting = 1024;
constexpr const char* kGreeting = "CLIENT PROTOCOL 2\nTIMEOUT 1\nSET FORMAT json\n";

Error NoAnswer(const std::string& address, const std::string& why) {
  return {ErrorKind::kUnavailable, "NCCL's RAS at " + address + " " + why};
}

// Numbers alone: no name server is asked. "localhost" is IPv6's or IPv4's, whichever answers.
std::vector<std::string> HostsOf(const Endpoint& endpoint) {
  return endpoint.host == "localhost" ? std::vector<std::string>{"::1", "127.0.0.1"}
                                      : std::vector<std::string>{endpoint.host};
}

Result<UniqueFd> Connect(const std::string& host, std::uint16_t port, const std::string& address,
                         Clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) {
    return Error{ErrorKind::kInvalid,
                 "NCCL's RAS is not asked: '" + address + "' (NCCL_RAS_ADDR) is no number"};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> release(list, ::freeaddrinfo);
  UniqueFd fd(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return SystemError("open a socket to", address, errno);
  }
  if (::connect(fd.get(), list->ai_addr, list->ai_addrlen) == 0) {
    return fd;
  }
  int error = errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof error;
    if (!ReadyWithin(fd.get(), POLLOUT, deadline) ||
        ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = ETIMEDOUT;
    }
  }
  if (error == 0) {
    return fd;
  }
  return SystemError("connect to NCCL's RAS at", address, error);
}

// One connection.
class Talk {
 public:
  Talk(UniqueFd fd, std::string address) : fd_(std::move(fd)), address_(std::move(address)) {}

  Result<void> Say(std::string_view words) const {
    const ssize_t sent = ::send(fd_.get(), words.data(), words.size(), MSG_NOSIGNAL);
    return sent == static_cast<ssize_t>(words.size())
               ? Result<void>()
               : Result<void>(NoAnswer(address_, "takes no question"));
  }

  Result<std::string> Line(Clock::time_point deadline) {
    std::size_t end = 0;
    while ((end = heard_.find('\n')) == std::string::npos) {
      if (heard_.size() > kMostOfGreeting) {
        return NoAnswer(address_, "speaks another protocol");
      }
      ASSIGN_OR_RETURN(const bool more, Hear(kMostOfGreeting, deadline));
      if (!more) {
        return NoAnswer(address_, "closed the connection");
      }
    }
    std::string line = heard_.substr(0, end);
    heard_.erase(0, end + 1);
    return line;
  }

  Result<std::string> Rest(Clock::time_point deadline) {
    while (true) {
      ASSIGN_OR_RETURN(const bool more, Hear(kMostRasBytes, deadline));
      if (!more) {
        return std::move(heard_);
      }
      if (heard_.size() > kMostRasBytes) {
        return NoAnswer(address_, "answers with more than 4 MiB");
      }
    }
  }

 private:
  // False: it is at its end.
  Result<bool> Hear(std::size_t most, Clock::time_point deadline) {
    char bytes[64 * 1024];
    if (!ReadyWithin(fd_.get(), POLLIN, deadline)) {
      return NoAnswer(address_, "does not answer in time");
    }
    const ssize_t got = ::recv(fd_.get(), bytes, std::min(sizeof bytes, most + 1), 0);
    if (got < 0) {
      return NoAnswer(address_, "broke the connection");
    }
    heard_.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  }

  UniqueFd fd_;
  std::string address_;
  std::string heard_;
};

// None: it was silent, and another one may not be.
Result<std::optional<Talk>> Greet(const std::string& host, std::uint16_t port,
                                  const std::string& address, bool goes_on,
                                  Clock::time_point deadline) {
  const Clock::time_point soon = std::min(deadline, Clock::now() + kFirstWord);
  ASSIGN_OR_RETURN(UniqueFd fd, Connect(host, port, address, soon));
  Talk talk(std::move(fd), address);
  RETURN_IF_ERROR(talk.Say(std::string(kGreeting) + (goes_on ? "MONITOR ?\n" : "")));
  const Result<std::string> first = talk.Line(soon);
  if (!first) {
    return Clock::now() >= soon ? Result<std::optional<Talk>>(std::nullopt)
                                : Result<std::optional<Talk>>(first.error());
  }
  if (!first->starts_with("SERVER PROTOCOL ")) {
    return NoAnswer(address, "speaks another protocol");
  }
  return std::optional(std::move(talk));
}

Result<RasText> AskAt(const std::string& host, std::uint16_t port, const std::string& address,
                      bool goes_on, Clock::time_point deadline) {
  for (int tried = 0; tried < kMostTries && Clock::now() < deadline; ++tried) {
    ASSIGN_OR_RETURN(std::optional<Talk> talk, Greet(host, port, address, goes_on, deadline));
    if (!talk) {
      continue;
    }
    ASSIGN_OR_RETURN(const std::string limit, talk->Line(deadline));
    ASSIGN_OR_RETURN(const std::string format, talk->Line(deadline));
    const bool json = format == "OK";
    if (limit != "OK" || (!json && !format.starts_with("ERROR"))) {
      return NoAnswer(address, "speaks another protocol");
    }
    bool newer = json;
    if (goes_on) {
      ASSIGN_OR_RETURN(const std::string word, talk->Line(deadline));
      newer = newer && word.starts_with("ERROR: Invalid");
    }
    if (goes_on && !newer) {
      return Error{ErrorKind::kRefused, "NCCL's RAS at " + address +
                                            " is of a version that may die of a question: not "
                                            "asked"};
    }
    RETURN_IF_ERROR(talk->Say(json ? "STATUS\n" : "VERBOSE STATUS\n"));
    ASSIGN_OR_RETURN(std::string text, talk->Rest(deadline));
    return RasText{json, std::move(text)};
  }
  return NoAnswer(address, "does not answer in time");
}

// As NCCL writes them: without the link ("%eth0") of those that hold on one alone.
std::set<std::string> OwnHosts() {
  std::set<std::string> hosts;
  for (const Interface& one : ListInterfaces()) {
    for (const std::string& address : one.addresses) {
      hosts.insert(address.substr(0, address.find('%')));
    }
  }
  return hosts;
}

}  // namespace

RasPlace RasPlaceIn(const std::map<std::string, std::string>& environment) {
  const auto enabled = environment.find("NCCL_RAS_ENABLE");
  if (enabled != environment.end() && enabled->second == "0") {
    return {};
  }
  if (const auto set = environment.find("NCCL_RAS_ADDR"); set != environment.end()) {
    return {UniqueFd(), set->second};
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const int shared = 1;
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &shared, sizeof shared) != 0 ||
      ::bind(fd.get(), any, size) != 0 || ::getsockname(fd.get(), any, &size) != 0) {
    return {};
  }
  return {std::move(fd), ToString(Endpoint{"127.0.0.1", ntohs(address.sin_port)})};
}

Result<RasText> AskRas(const std::string& address, bool goes_on, Clock::time_point deadline) {
  ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(address, std::nullopt));
  Result<RasText> answer = NoAnswer(address, "is not asked");
  for (const std::string& host : HostsOf(endpoint)) {
    answer = AskAt(host, endpoint.port, address, goes_on, deadline);
    if (answer) {
      break;
    }
  }
  return answer;
}

std::map<std::uint32_t, std::vector<RasProcess>> OwnProcesses(
    const RasAnswer& answer, const std::vector<RasWorker>& workers) {
  const std::set<std::string> hosts = OwnHosts();
  std::map<std::int64_t, std::uint32_t> owners;
  for (const RasWorker& worker : workers) {
    owners.emplace(worker.pid, worker.local_rank);
    for (const pid_t below : DescendantsOf(worker.pid, {})) {
      owners.emplace(below, worker.local_rank);
    }
  }
  std::map<std::uint32_t, std::set<RasProcess>> found;
  for (const RasCommunicator& communicator : answer.communicators) {
    for (const RasRank& rank : communicator.ranks) {
      const auto owner = owners.find(rank.process.second);
      if (owner != owners.end() && hosts.contains(rank.process.first)) {
        found[owner->second].insert(rank.process);
      }
    }
  }
  std::map<std::uint32_t, std::vector<RasProcess>> own;
  for (const auto& [local_rank, processes] : found) {
    own[local_rank].assign(processes.begin(), processes.end());
  }
  return own;
}

}  // namespace ddprun

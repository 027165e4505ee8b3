#include "launcher/check/check_node.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "agent/host/node_check.h"
#include "common/asio_loop.h"
#include "launcher/command_line/host_places.h"
#include "proto/worker_env.h"
#include "rendezvous/listener/hello.h"
#include "rendezvous/listener/listen_socket.h"
#include "rendezvous/listener/ready_within.h"
#include "rendezvous/store/store_request.h"

namespace ddprun {
namespace {

using LinkClock = std::chrono::steady_clock;

constexpr Duration kLinkPatience{5'000};
constexpr Duration kStorePatience{30'000};  // More than a node needs for a round.
constexpr std::size_t kMostValue = 64 << 10;
constexpr std::size_t kMostOthers = 8;
constexpr std::size_t kTimes = 2;      // Measurements of every link.
constexpr std::size_t kMostTimes = 5;  // Measurements of a link that seems slow.
constexpr auto kSending = std::chrono::milliseconds(500);
constexpr int kPiece = 256 << 10;

// Each later wait on it has this limit.
void WaitAtMost(int socket, Duration patience) {
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) & ~O_NONBLOCK);
  const timeval limit{static_cast<time_t>(patience.count() / 1'000), 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

// `patience`: for the connection, and for each wait on it.
Result<UniqueFd> ConnectTo(const Endpoint& endpoint, Duration patience) {
  ASSIGN_OR_RETURN(UniqueFd socket, ConnectWithin(endpoint, "", LinkClock::now() + patience));
  WaitAtMost(socket.get(), patience);
  return socket;
}

// The first `size` bytes of what the store answers.
Result<std::string> Ask(int store, const std::string& request, std::size_t size) {
  std::string answer(size, '\0');
  const ssize_t sent = ::send(store, request.data(), request.size(), MSG_NOSIGNAL);
  const ssize_t got = ::recv(store, answer.data(), size, MSG_WAITALL);
  if (sent != static_cast<ssize_t>(request.size()) || got != static_cast<ssize_t>(size)) {
    return Error{ErrorKind::kUnavailable, "the run's store has not answered in time"};
  }
  return answer;
}

// This node's place in the run, and the run's store, by which the nodes tell each other things.
// Each call is a connection of its own: one that waited in vain is of no further use.
struct CheckRun {
  std::size_t rank = 0;
  std::size_t size = 1;
  Endpoint store;
  Duration patience{0};

  // Returns when it is done, with the connection.
  Result<UniqueFd> Do(const std::string& request) const {
    ASSIGN_OR_RETURN(UniqueFd socket, ConnectTo(store, patience));
    RETURN_IF_ERROR(Ask(socket.get(), wire::Validate() + request, 1));
    return socket;
  }
  Result<UniqueFd> Tell(const std::string& key, const std::string& value) const {
    return Do(wire::Set(key, value) + wire::Wait({key}));
  }
  // Waits for the answer.
  Result<std::string> Hear(const std::string& key) const {
    ASSIGN_OR_RETURN(const UniqueFd socket, Do(wire::Wait({key})));
    std::uint64_t size = 0;
    ASSIGN_OR_RETURN(const std::string bytes, Ask(socket.get(), wire::Get(key), sizeof size));
    std::memcpy(&size, bytes.data(), sizeof size);
    return Ask(socket.get(), "", std::min<std::size_t>(size, kMostValue));
  }
};

std::string KeyOf(const char* what, std::size_t number) {
  return std::string("check/") + what + "/" + std::to_string(number);
}

std::string OwnAddress(int socket) {
  boost::asio::ip::tcp::endpoint own;
  socklen_t size = static_cast<socklen_t>(own.capacity());
  ::getsockname(socket, own.data(), &size);
  own.resize(size);
  return own.address().to_string();
}

// By the address by which this node reaches the store.
Result<void> TakeLinksHere(const CheckRun& run) {
  ASSIGN_OR_RETURN(const UniqueFd socket, ConnectTo(run.store, run.patience));
  ASSIGN_OR_RETURN(ListenSocket listener, ListenOn({OwnAddress(socket.get()), 0}));
  RETURN_IF_ERROR(TakeLinks(std::move(listener.fd)));
  RETURN_IF_ERROR(run.Tell(KeyOf("address", run.rank), ToString(listener.endpoint)));
  return {};
}

CheckedLink LinkTo(std::size_t to, const CheckRun& run) {
  const auto measure = [&]() -> Result<CheckedLink> {
    ASSIGN_OR_RETURN(const std::string address, run.Hear(KeyOf("address", to)));
    ASSIGN_OR_RETURN(const Endpoint other, ParseEndpoint(address, std::nullopt));
    return MeasureLink(to, other);
  };
  const Result<CheckedLink> link = measure();
  return link ? *link : CheckedLink{to, 0, 0, link.error().message};
}

// Beside the best one of this node.
bool SeemsSlow(const CheckedLink& link, const std::vector<CheckedLink>& links) {
  const CheckedLink& best = std::ranges::max(links, {}, &CheckedLink::bytes_per_second);
  return link.error.empty() && link.bytes_per_second < 0.75 * best.bytes_per_second;
}

// In each round every node sends to one other node, and one other node sends to it. Each link is
// measured more than once, since others may have been in its way.
std::vector<CheckedLink> MeasureLinks(const CheckRun& run) {
  std::vector<CheckedLink> links;
  const std::size_t others = std::min(run.size - 1, kMostOthers);
  for (std::size_t round = 0; round < kMostTimes * others; ++round) {
    const auto all = static_cast<std::int64_t>(run.size);
    if (!run.Do(wire::Barrier(KeyOf("round", round), all))) {
      break;  // Rank 0 names the node that did not come.
    }
    const std::size_t i = round % others;
    if (round >= kTimes * others && !SeemsSlow(links[i], links)) {
      continue;
    }
    CheckedLink link = LinkTo((run.rank + 1 + i) % run.size, run);
    if (i == links.size()) {
      links.push_back(std::move(link));
    } else if (link.bytes_per_second > links[i].bytes_per_second) {
      links[i] = std::move(link);
    }
  }
  return links;
}

Result<std::vector<CheckedNode>> HearAll(const CheckRun& run) {
  std::vector<CheckedNode> nodes;
  for (std::size_t rank = 0; rank < run.size; ++rank) {
    const Result<std::string> told = run.Hear(KeyOf("node", rank));
    if (!told) {
      return Error{ErrorKind::kUnavailable,
                   "node " + std::to_string(rank) + " has not reported in time"};
    }
    ASSIGN_OR_RETURN(CheckedNode node, NodeFromJson(*told, run.size));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::string AskUser(const LaunchConfig& config) {
  AsioLoop loop;
  NodeCheck check(loop, config.node_check, config.node_check_timeout);
  std::string verdict;
  loop.Post([&] {
    check.Run("check", [&](const std::string& why) {
      verdict = why;
      loop.Stop();
    });
  });
  loop.Run();
  return verdict;
}

// Until the other node ends the connection.
void TakeAll(int socket) {
  std::vector<char> piece(kPiece);
  while (::recv(socket, piece.data(), piece.size(), 0) > 0) {
  }
}

Error LinkError(const char* tried, const Endpoint& other) {
  return errno == EAGAIN
             ? Error{ErrorKind::kUnavailable, "no answer in time from " + ToString(other)}
             : SystemError(tried, ToString(other), errno);
}

}  // namespace

CheckedNode LookAtNode(const LaunchConfig& config) {
  CheckedNode node;
  node.host = HostName();
  if (config.host_check != HostCheck::kOff) {
    HostView view = LookAtHost(WatchedHost());
    node.facts = std::move(view.facts);
    node.refused = std::move(view.refuses);
    if (node.facts.empty()) {
      node.facts.push_back({"gpus", "no driver", false});
    }
  }
  node.asked = !config.node_check.empty();
  node.node_check = node.asked ? AskUser(config) : "";
  return node;
}

Result<bool> PrintReport(std::vector<CheckedNode> nodes, bool json) {
  const CheckReport report = Judge(std::move(nodes));
  const std::string text = json ? InJson(report) : InWords(report);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    return SystemError("write to", "standard output", errno);
  }
  return !report.problems.empty();
}

Result<bool> CheckWithOthers(const LaunchConfig& config, bool json) {
  ASSIGN_OR_RETURN(const WorkerEnv env, FromEnvironment(GetProcessEnv));
  CheckRun run{env.rank, env.world_size, env.master, kStorePatience + config.node_check_timeout};
  CheckedNode node = LookAtNode(config);
  RETURN_IF_ERROR(TakeLinksHere(run));
  node.links = MeasureLinks(run);
  RETURN_IF_ERROR(run.Tell(KeyOf("node", run.rank), InJson(node)));
  if (run.rank > 0) {
    run.patience *= 3;  // Rank 0 gives up before, and names the node that does not answer.
    ASSIGN_OR_RETURN(const std::string verdict, run.Hear("check/verdict"));
    return verdict == "bad";
  }
  ASSIGN_OR_RETURN(std::vector<CheckedNode> nodes, HearAll(run));
  ASSIGN_OR_RETURN(const bool bad, PrintReport(std::move(nodes), json));
  RETURN_IF_ERROR(run.Tell("check/verdict", bad ? "bad" : "well"));
  return bad;
}

// A thread for each connection: one that stays silent keeps no other one waiting.
Result<void> TakeLinks(UniqueFd listener) {
  const auto shared = std::make_shared<UniqueFd>(std::move(listener));
  const bool started = StartThread([shared] {
    while (ReadyWithin(shared->get(), POLLIN, LinkClock::time_point::max())) {
      const auto socket =
          std::make_shared<UniqueFd>(::accept4(shared->get(), nullptr, nullptr, SOCK_CLOEXEC));
      WaitAtMost(socket->get(), kLinkPatience);
      StartThread([socket] { TakeAll(socket->get()); });
    }
  });
  return started ? Result<void>() : SystemError("start", "a thread", EAGAIN);
}

Result<CheckedLink> MeasureLink(std::size_t to, const Endpoint& other) {
  ASSIGN_OR_RETURN(const UniqueFd socket, ConnectTo(other, kLinkPatience));
  tcp_info info{};
  socklen_t size = sizeof info;
  ::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size);
  const int unsent = kPiece;  // Else a slow link has seconds of them when the sending ends.
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  const std::string piece(kPiece, 'x');
  double bytes = 0;
  const auto begin = LinkClock::now();
  while (LinkClock::now() < begin + kSending) {
    const ssize_t sent = ::send(socket.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      return LinkError("send to", other);
    }
    bytes += static_cast<double>(sent);
  }
  ::shutdown(socket.get(), SHUT_WR);
  char end = 0;
  if (::recv(socket.get(), &end, 1, 0) != 0) {  // Its end comes once the other node has it all.
    return LinkError("hear from", other);
  }
  const std::chrono::duration<double> took = LinkClock::now() - begin;
  return CheckedLink{.to = to,
                     .bytes_per_second = bytes / took.count(),
                     .latency_seconds = static_cast<double>(info.tcpi_rtt) / 1e6,
                     .error = ""};
}

}  // namespace ddprun

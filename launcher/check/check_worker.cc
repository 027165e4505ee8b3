#include "launcher/check/check_worker.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "common/exit_code.h"
#include "common/log.h"
#include "launcher/check/exchange.h"
#include "launcher/check/node_look.h"
#include "proto/worker_env.h"
#include "rendezvous/door/listen_socket.h"
#include "rendezvous/store/store_request.h"

namespace ddprun {
namespace {

constexpr Duration kFactsPatience{60'000};
constexpr Duration kMeetingPatience{20'000};  // For the other node of a pair,
constexpr Duration kRoundsPatience{600'000};  // and for all that others do meanwhile.
constexpr std::size_t kMostValue = 64 << 10;
constexpr std::size_t kMostOthers = 8;
constexpr std::size_t kMostMeasuredAgain = 16;
constexpr const char* kEnd = "end ";

// This rank's place in the run, and the run's store, by which all ranks tell each other things.
// Each call is a connection of its own: one that waited in vain is of no further use.
struct CheckPlace {
  std::size_t rank = 0;
  std::size_t size = 1;
  Endpoint store;

  Result<void> Tell(const std::string& key, const std::string& value) const {
    ASSIGN_OR_RETURN(const UniqueFd socket, ConnectTo(store, kMeetingPatience));
    RETURN_IF_ERROR(SendBytes(socket.get(), wire::Validate() + wire::Set("check/" + key, value) +
                                                wire::Wait({"check/" + key})));
    RETURN_IF_ERROR(ReceiveBytes(socket.get(), 1));  // It has it.
    return {};
  }
  // Waits until it was told.
  Result<std::string> Hear(const std::string& key, Duration patience) const {
    ASSIGN_OR_RETURN(const UniqueFd socket, ConnectTo(store, patience));
    RETURN_IF_ERROR(SendBytes(socket.get(), wire::Validate() + wire::Wait({"check/" + key})));
    RETURN_IF_ERROR(ReceiveBytes(socket.get(), 1));
    RETURN_IF_ERROR(SendBytes(socket.get(), wire::Get("check/" + key)));
    ASSIGN_OR_RETURN(const std::string length, ReceiveBytes(socket.get(), sizeof(std::uint64_t)));
    std::uint64_t size = 0;
    std::memcpy(&size, length.data(), sizeof size);
    if (size > kMostValue) {
      return Error{ErrorKind::kInvalid, "the run's store has something else at a key of checks"};
    }
    return ReceiveBytes(socket.get(), size);
  }
};

Result<CheckPlace> OwnPlace() {
  const auto number = [](const char* name) {
    return std::strtoull(GetProcessEnv(name).value_or("").c_str(), nullptr, 10);
  };
  CheckPlace place{number("RANK"),
                   number("WORLD_SIZE"),
                   {GetProcessEnv("MASTER_ADDR").value_or(""),
                    static_cast<std::uint16_t>(number("MASTER_PORT"))}};
  if (place.size == 0 || place.rank >= place.size || place.store.host.empty()) {
    return Error{ErrorKind::kInvalid, "ddprun check --worker is for ddprun itself to start"};
  }
  return place;
}

std::string NameOf(const std::string& round, const NodePair& pair) {
  return round + "/" + std::to_string(pair.first) + "-" + std::to_string(pair.second);
}

// The second node of a pair listens, and tells the first one where.
Result<Exchanged> Exchange(const CheckPlace& place, const std::string& address,
                           const std::string& name, bool listens) {
  if (listens) {
    ASSIGN_OR_RETURN(const ListenSocket listener, ListenOn({address, 0}));
    RETURN_IF_ERROR(place.Tell(name, ToString(listener.endpoint)));
    return ServePair(listener.fd.get());
  }
  ASSIGN_OR_RETURN(const std::string where, place.Hear(name, kMeetingPatience));
  ASSIGN_OR_RETURN(const Endpoint other, ParseEndpoint(where, std::nullopt));
  return CallPair(other);
}

// This rank's part of a round of pairs; what came of it is told to rank 0.
Result<void> TakePartIn(const std::vector<NodePair>& pairs, const std::string& round,
                        const CheckPlace& place, const std::string& address) {
  for (const NodePair& pair : pairs) {
    if (place.rank == pair.first || place.rank == pair.second) {
      const std::string name = NameOf(round, pair);
      const Result<Exchanged> exchanged = Exchange(place, address, name, place.rank == pair.second);
      RETURN_IF_ERROR(place.Tell(name + "/" + std::to_string(place.rank),
                                 exchanged ? "ok " + std::to_string(exchanged->received) + " " +
                                                 std::to_string(exchanged->latency * 1e6)
                                           : exchanged.error().message));
    }
  }
  return {};
}

// What both nodes of a pair have told. A node that tells nothing once is not waited for again.
PairResult ResultOf(const CheckPlace& place, const std::string& round, const NodePair& pair,
                    std::vector<bool>& silent) {
  PairResult result{.nodes = pair};
  for (const std::size_t rank : {pair.first, pair.second}) {
    const Result<std::string> told =
        silent[rank]
            ? Error{ErrorKind::kUnavailable, ""}
            : place.Hear(NameOf(round, pair) + "/" + std::to_string(rank), 2 * kMeetingPatience);
    silent[rank] = !told;
    double received = 0;
    double latency = 0;
    if (!told) {
      result.error = "node " + std::to_string(rank) + " does not answer";
    } else if (std::sscanf(told->c_str(), "ok %lf %lf", &received, &latency) != 2) {
      result.error = result.error.empty() ? *told : result.error;
    }
    (rank == pair.first ? result.back : result.there) = received;
    result.latency = std::max(result.latency, latency / 1e6);
  }
  return result;
}

// What looks slow is measured once more, alone: others may have been in its way.
Result<void> MeasureAgain(const CheckPlace& place, const std::string& address,
                          std::vector<bool>& silent, std::size_t& round, Checked& checked) {
  std::vector<NodePair> suspects = Suspects(checked.slow, checked.pairs);
  suspects.resize(std::min(suspects.size(), kMostMeasuredAgain));
  for (const NodePair& pair : suspects) {
    const std::string name = "again" + std::to_string(round++);
    RETURN_IF_ERROR(
        place.Tell(name, std::to_string(pair.first) + " " + std::to_string(pair.second)));
    RETURN_IF_ERROR(TakePartIn({pair}, name, place, address));
    PairResult again = ResultOf(place, name, pair, silent);
    for (PairResult& result : checked.pairs) {
      if (result.nodes == pair && again.Rate() > result.Rate()) {
        again.latency =
            result.error.empty() ? std::min(result.latency, again.latency) : again.latency;
        result = again;
      }
    }
  }
  checked.slow = FindSlow(place.size, checked.pairs);
  return {};
}

// Where hosts have names of their own, by these.
void NameThem(std::vector<CheckedNode>& nodes) {
  std::map<std::string, int> hosts;
  for (const CheckedNode& node : nodes) {
    ++hosts[node.host];
  }
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    CheckedNode& node = nodes[rank];
    node.name =
        hosts[node.host] == 1 ? node.host : "node " + std::to_string(rank) + " (" + node.host + ")";
  }
}

Result<std::vector<CheckedNode>> FactsOfAll(const CheckPlace& place, Duration patience) {
  std::vector<CheckedNode> nodes;
  std::string missing;
  for (std::size_t rank = 0; rank < place.size; ++rank) {
    const Result<std::string> told =
        place.Hear("node/" + std::to_string(rank), missing.empty() ? patience : kMeetingPatience);
    missing += told ? "" : " " + std::to_string(rank);
    if (told) {
      ASSIGN_OR_RETURN(CheckedNode node, NodeFromJson(*told));
      nodes.push_back(std::move(node));
    }
  }
  if (!missing.empty()) {
    return Error{ErrorKind::kUnavailable, "no word of what these nodes have found:" + missing};
  }
  NameThem(nodes);
  return nodes;
}

using NodeRounds = std::vector<std::vector<NodePair>>;

Result<void> MeetAll(const NodeRounds& rounds, const CheckPlace& place,
                     const std::string& address) {
  for (const std::vector<NodePair>& round : rounds) {
    RETURN_IF_ERROR(TakePartIn(round, "round", place, address));
  }
  return {};
}

// Rank 0's part: hears all, has what looks slow meet again, and ends the check for all.
Result<Checked> LeadCheck(const CheckPlace& place, const std::string& address,
                          const NodeRounds& rounds, Duration patience) {
  Checked checked;
  ASSIGN_OR_RETURN(checked.nodes, FactsOfAll(place, patience));
  RETURN_IF_ERROR(place.Tell("begin", ""));
  RETURN_IF_ERROR(MeetAll(rounds, place, address));
  std::vector<bool> silent(place.size);
  for (const std::vector<NodePair>& round : rounds) {
    for (const NodePair& pair : round) {
      checked.pairs.push_back(ResultOf(place, "round", pair, silent));
    }
  }
  std::size_t again = 0;
  if (!rounds.empty()) {
    checked.slow = FindSlow(place.size, checked.pairs);
    RETURN_IF_ERROR(MeasureAgain(place, address, silent, again, checked));
  }
  RETURN_IF_ERROR(
      place.Tell("again" + std::to_string(again), kEnd + std::string(checked.Bad() ? "bad" : "")));
  return checked;
}

// Does what rank 0 says; whether something is bad anywhere.
Result<bool> FollowCheck(const CheckPlace& place, const std::string& address,
                         const NodeRounds& rounds, Duration patience) {
  RETURN_IF_ERROR(place.Hear("begin", patience + kMeetingPatience));
  RETURN_IF_ERROR(MeetAll(rounds, place, address));
  for (std::size_t again = 0;; ++again) {
    const std::string name = "again" + std::to_string(again);
    ASSIGN_OR_RETURN(const std::string told, place.Hear(name, kRoundsPatience));
    NodePair pair;
    if (std::sscanf(told.c_str(), "%zu %zu", &pair.first, &pair.second) != 2) {
      return told != kEnd;
    }
    RETURN_IF_ERROR(TakePartIn({pair}, name, place, address));
  }
}

Result<bool> TakePart(const CheckWorkerRequest& request) {
  ASSIGN_OR_RETURN(const CheckPlace place, OwnPlace());
  const CheckedNode node = LookAtNode(request);
  ASSIGN_OR_RETURN(const UniqueFd store, ConnectTo(place.store, kMeetingPatience));
  const std::string address = OwnAddressOf(store.get());
  RETURN_IF_ERROR(place.Tell("node/" + std::to_string(place.rank), InJson(node)));
  const NodeRounds rounds = request.pairs ? Rounds(place.size, kMostOthers) : NodeRounds();
  const Duration patience = kFactsPatience + request.node_check_timeout;
  if (place.rank != 0) {
    return FollowCheck(place, address, rounds, patience);
  }
  ASSIGN_OR_RETURN(const Checked checked, LeadCheck(place, address, rounds, patience));
  const std::string text = request.json ? InJson(checked) : InWords(checked);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    return SystemError("write to", "standard output", errno);
  }
  return checked.Bad();
}

}  // namespace

int RunCheckWorker(const CheckWorkerRequest& request) {
  StartLog("ddprun check", LogLevel::kInfo);
  const Result<bool> bad = TakePart(request);
  if (!bad) {
    std::fprintf(stderr, "ddprun check: %s\n", InOneLine(bad.error().message).c_str());
    return 1;
  }
  const std::string verdict = GetProcessEnv(kCheckVerdict).value_or("");
  if (!verdict.empty()) {
    if (std::FILE* const file = std::fopen(verdict.c_str(), "we")) {
      std::fputs(*bad ? "bad" : "well", file);
      std::fclose(file);
    }
  }
  return kExitOk;
}

}  // namespace ddprun

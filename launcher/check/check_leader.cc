#include "launcher/check/check_leader.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "launcher/check/arrivals.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

constexpr auto kWordLimit = std::chrono::seconds(2);
constexpr std::size_t kMostOthers = 8;
constexpr std::size_t kMostMeasuredAgain = 16;
constexpr std::size_t kMostFacts = 256;

struct NodeOnLine {
  UniqueFd socket;
  Endpoint at;
  CheckedNode found;
  bool silent = false;  // It has not answered once.
};
using CheckNodes = std::map<std::size_t, NodeOnLine>;  // By rank.

Result<CheckNodes> HearAll(int listener, const CheckLead& lead) {
  const CheckTime deadline = CheckClock::now() + lead.patience;
  Arrivals arrivals(listener, lead.number);
  CheckNodes nodes;
  while (nodes.size() < lead.nodes) {
    Result<UniqueFd> socket = arrivals.Next(deadline);
    if (!socket) {
      std::string missing;
      for (std::size_t rank = 0; rank < lead.nodes; ++rank) {
        missing += nodes.contains(rank) ? "" : " " + std::to_string(rank);
      }
      return Error{ErrorKind::kUnavailable, "no word of what these nodes have found:" + missing};
    }
    const auto told = ReceiveJson(socket->get(), CheckClock::now() + kWordLimit);
    const std::size_t rank = told ? ValueOr(told->json, "rank", lead.nodes) : lead.nodes;
    if (rank < lead.nodes) {
      nodes[rank] = {std::move(*socket),
                     {ValueOr(told->json, "address", std::string()),
                      ValueOr(told->json, "port", std::uint16_t{0})},
                     NodeFromJson(told->json)};
    }
  }
  return nodes;
}

std::string Silence(std::size_t rank) {
  return "node " + std::to_string(rank) + " does not answer";
}

bool Tell(NodeOnLine& node, const nlohmann::json& what, CheckTime deadline) {
  node.silent = node.silent || !SendJson(node.socket.get(), what, deadline);
  return !node.silent;
}

// Whoever answers no more is asked nothing else, and the results of its pairs say so.
void HaveMeet(CheckNodes& nodes, const std::vector<NodePair>& pairs, std::chrono::seconds limit,
              std::vector<PairResult>& results) {
  const CheckTime deadline = CheckClock::now() + limit;
  std::vector<PairResult> round;
  for (const auto& [first, second] : pairs) {
    PairResult result{.nodes = {first, second}};
    const Endpoint at = nodes[second].at;
    if (nodes[first].silent || !Tell(nodes[second], {{"do", "serve"}}, deadline)) {
      result.error = Silence(nodes[first].silent ? first : second);
    } else if (!Tell(nodes[first], {{"do", "call"}, {"host", at.host}, {"port", at.port}},
                     deadline)) {
      result.error = Silence(first);
    }
    round.push_back(std::move(result));
  }
  for (PairResult& result : round) {
    const NodePair pair = result.nodes;
    for (const std::size_t rank : {pair.first, pair.second}) {
      NodeOnLine& node = nodes[rank];
      const auto message = node.silent || !result.error.empty()
                               ? Result<CheckMessage>(Error{ErrorKind::kUnavailable, ""})
                               : ReceiveJson(node.socket.get(), deadline);
      if (!message) {
        node.silent = node.silent || result.error.empty();
        result.error = result.error.empty() ? Silence(rank) : result.error;
        continue;
      }
      const nlohmann::json& told = message->json;
      const double received = ValueOr(told, "received", 0.0);
      (rank == pair.first ? result.back : result.there) = received;
      result.latency = rank == pair.first ? ValueOr(told, "latency", 0.0) : result.latency;
      result.error = ValueOr(told, "error", std::string());
    }
  }
  std::ranges::move(round, std::back_inserter(results));
}

// What looks slow is measured once more, alone: others may have been in its way.
void MeasureAgain(CheckNodes& nodes, std::chrono::seconds limit, Checked& checked) {
  std::vector<NodePair> suspects = Suspects(checked.slow, checked.pairs);
  suspects.resize(std::min(suspects.size(), kMostMeasuredAgain));
  for (const NodePair& pair : suspects) {
    std::vector<PairResult> again;
    HaveMeet(nodes, {pair}, limit, again);
    for (PairResult& result : checked.pairs) {
      if (result.nodes == pair && again.front().Rate() > result.Rate()) {
        again.front().latency = result.error.empty()
                                    ? std::min(result.latency, again.front().latency)
                                    : again.front().latency;
        result = again.front();
      }
    }
  }
  checked.slow = FindSlow(nodes.size(), checked.pairs);
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

}  // namespace

nlohmann::json ToJson(const CheckedNode& node) {
  nlohmann::json facts = nlohmann::json::array();
  for (std::size_t i = 0; i < std::min(node.facts.size(), kMostFacts); ++i) {
    facts.push_back(
        {{"name", node.facts[i].name}, {"value", node.facts[i].value}, {"bad", node.facts[i].bad}});
  }
  return {{"host", node.host},
          {"facts", facts},
          {"refuses", node.refuses},
          {"asked", node.asked},
          {"check", node.node_check}};
}

CheckedNode NodeFromJson(const nlohmann::json& json) {
  CheckedNode node;
  node.host = ValueOr(json, "host", std::string());
  node.refuses = ValueOr(json, "refuses", std::string());
  node.asked = ValueOr(json, "asked", false);
  node.node_check = ValueOr(json, "check", std::string());
  const auto facts = json.find("facts");
  if (facts == json.end() || !facts->is_array()) {
    return node;
  }
  for (const nlohmann::json& fact : *facts) {
    if (fact.is_object() && node.facts.size() < kMostFacts) {
      node.facts.push_back({ValueOr(fact, "name", std::string()),
                            ValueOr(fact, "value", std::string()), ValueOr(fact, "bad", false)});
    }
  }
  return node;
}

Result<Checked> LeadCheck(int listener, const CheckLead& lead) {
  ASSIGN_OR_RETURN(CheckNodes nodes, HearAll(listener, lead));
  Checked checked;
  for (const auto& [rank, node] : nodes) {
    checked.nodes.push_back(node.found);
  }
  NameThem(checked.nodes);
  if (lead.pairs) {
    for (const std::vector<NodePair>& round : Rounds(lead.nodes, kMostOthers)) {
      HaveMeet(nodes, round, lead.round, checked.pairs);
    }
    checked.slow = FindSlow(lead.nodes, checked.pairs);
    MeasureAgain(nodes, lead.round, checked);
  }
  for (auto& [rank, node] : nodes) {
    (void)SendJson(node.socket.get(), {{"do", "end"}, {"bad", checked.Bad()}},
                   CheckClock::now() + kWordLimit);
  }
  return checked;
}

}  // namespace ddprun

#include "launcher/verbs/node_query.h"

#include <chrono>
#include <cstdio>
#include <optional>

#include "common/log.h"

namespace ddprun {
namespace {

constexpr Duration kQueryLimit{12'000};
constexpr Duration kSayAfter{3'000};  // Tools take a while.
constexpr Duration kSayAgain{10'000};
constexpr std::size_t kMostOfOneNode = std::size_t{32} << 20;  // An agent takes 16 MiB at most.

// "waiting for 2 of 16 nodes: n03 n07"
void SayWhoIsMissing(const char* verb, const std::set<NodeId>& left, std::size_t all) {
  constexpr std::size_t kNamed = 8;
  std::string names;
  std::size_t named = 0;
  for (const NodeId& node : left) {
    if (named++ == kNamed) {
      names += " ...";
      break;
    }
    names += " " + node;
  }
  std::fprintf(stderr, "ddprun %s: waiting for %zu of %zu %s:%s\n", verb, left.size(), all,
               all == 1 ? "node" : "nodes", InOneLine(names).c_str());
}

}  // namespace

Time SteadyNow() {
  return Time(std::chrono::duration_cast<Time::duration>(
      std::chrono::steady_clock::now().time_since_epoch()));
}

Result<NodeQuery> QueryNodes(const ServerPlace& place, const RunId& run_id, const RequestSpec& spec,
                             const std::vector<NodeId>& nodes) {
  return NodeQuery::Open(place, {run_id, place.access.token, spec, nodes}, kQueryLimit);
}

Result<NodeQuery> QueryNodes(const ServerQuery& server, const RequestSpec& spec,
                             const std::vector<NodeId>& nodes) {
  ASSIGN_OR_RETURN(const ServerPlace place, FindServer(server));
  return QueryNodes(place, server.run_id, spec, nodes);
}

Result<void> GatherAnswers(
    NodeQuery query, const char* verb, Duration patience,
    const std::function<void(const NodeId& node, AnswerRecord& record)>& take,
    NodeAnswers& answers) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + patience;
  auto say = Clock::now() + kSayAfter;
  std::set<NodeId> left(query.nodes().begin(), query.nodes().end());
  const std::size_t all = left.size();
  std::map<NodeId, std::size_t> bytes;
  while (!left.empty() && Clock::now() <= end) {
    ASSIGN_OR_RETURN(const std::optional<AskReply> reply, query.Next(kPieceWait));
    if (reply && left.contains(reply->node)) {
      const NodeId& node = reply->node;
      std::vector<AnswerRecord> records;
      const Result<void> read = ReadRecords(reply->piece.bytes, records);
      const bool too_much = (bytes[node] += reply->piece.bytes.size()) > kMostOfOneNode;
      const std::string refusal = !read      ? read.error().message
                                  : too_much ? "it has sent more than a node may send"
                                             : reply->piece.refusal;
      for (AnswerRecord& record : records) {
        take(node, record);
      }
      if (!refusal.empty()) {
        answers.refused[node] = refusal;
      }
      if (reply->piece.last || too_much) {
        left.erase(node);
        if (!answers.refused.contains(node)) {
          answers.whole.insert(node);
        }
      }
      query.Want(node);
    }
    if (Clock::now() > say && !left.empty()) {
      say = Clock::now() + kSayAgain;
      SayWhoIsMissing(verb, left, all);
    }
  }
  for (const NodeId& node : left) {
    answers.refused[node] = "it has not answered within " + FormatDuration(patience);
  }
  return {};
}

}  // namespace ddprun

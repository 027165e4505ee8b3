#include "launcher/verbs/run_stacks.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "agent/watch/stack_dump.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/print_out.h"
#include "launcher/status_json.h"
#include "launcher/verbs/asking.h"
#include "launcher/verbs/rank_spans.h"
#include "rendezvous/messages/answer_records.h"

namespace ddprun {
namespace {

constexpr Duration kStacksPatience{60'000};  // A node takes 40 s at most.
constexpr std::size_t kShownFrames = 12;
constexpr Duration kSayAfter{3'000};  // Tools take a while.
constexpr Duration kSayAgain{10'000};
constexpr std::size_t kMostStacksOfNode = std::size_t{32} << 20;  // An agent takes 16 MiB at most.

void ComplainOfStacks(const std::string& text) {
  std::fprintf(stderr, "ddprun stacks: %s\n", InOneLine(text).c_str());
}

struct Gathered {
  std::map<std::uint32_t, StackText> ranks;
  std::map<NodeId, std::size_t> bytes;
  std::set<NodeId> left;  // Their output is incomplete.
  std::size_t all = 0;
  bool missed = false;

  void Take(const NodeId& node, const AnswerPiece& piece) {
    bytes[node] += piece.bytes.size();
    if (bytes[node] > kMostStacksOfNode) {
      if (left.erase(node) > 0) {
        ComplainOfStacks("node " + node + " has sent more than its workers' stacks can be");
        missed = true;
      }
      return;
    }
    std::vector<AnswerRecord> records;
    if (const Result<void> read = ReadRecords(piece.bytes, records); !read) {
      ComplainOfStacks("node " + node + ": " + read.error().message);
      missed = true;
    }
    for (AnswerRecord& record : records) {
      StackText& stack = ranks[record.rank];
      stack.rank = record.rank;
      stack.node = node;
      stack.text += record.text;
    }
    if (!piece.refusal.empty()) {
      ComplainOfStacks("node " + node + ": " + piece.refusal);
      missed = true;
    }
    if (piece.last) {
      left.erase(node);
    }
  }
};

// "waiting for 2 of 16 nodes: n03 n07"
void SayWhoIsMissing(const std::set<NodeId>& left, std::size_t all) {
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
  ComplainOfStacks("waiting for " + std::to_string(left.size()) + " of " + std::to_string(all) +
                   (all == 1 ? " node:" : " nodes:") + names);
}

Result<void> GatherStacks(NodesAsked asked, Gathered& gathered) {
  const auto begin = std::chrono::steady_clock::now();
  const auto end = begin + kStacksPatience;
  auto say = begin + kSayAfter;
  gathered.left.insert(asked.asked().begin(), asked.asked().end());
  gathered.all = gathered.left.size();
  while (!gathered.left.empty()) {
    if (std::chrono::steady_clock::now() > end) {
      for (const NodeId& node : gathered.left) {
        ComplainOfStacks("node " + node + " has not answered within " +
                         FormatDuration(kStacksPatience));
      }
      gathered.missed = true;
      return {};
    }
    ASSIGN_OR_RETURN(const std::optional<AskReply> reply, asked.Next(kLookAgain));
    if (reply) {
      gathered.Take(reply->node, reply->piece);
      asked.Want(reply->node);
    }
    if (const auto now = std::chrono::steady_clock::now(); now > say && !gathered.left.empty()) {
      say = now + kSayAgain;
      SayWhoIsMissing(gathered.left, gathered.all);
    }
  }
  return {};
}

bool MissesItsTool(const StackText& stack) {
  return stack.text.find(kToolIsMissing) != std::string::npos;
}

std::string Noun(std::size_t ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

}  // namespace

std::string FormatGroups(const std::vector<StackGroup>& groups) {
  std::string text;
  for (const StackGroup& group : groups) {
    text += Noun(group.ranks.size()) + " (" + RangesOf(group.ranks, ",") +
            (group.node.empty() ? "" : " on " + group.node) + "): " + group.headline + "\n";
    if (group.places.size() == 1 && group.places.front() == group.headline) {
      continue;  // The kernel's view is one line.
    }
    const std::size_t shown = std::min(group.places.size(), kShownFrames);
    for (std::size_t i = 0; i < shown; ++i) {
      text += "    " + group.places[i] + "\n";
    }
    const std::size_t more = group.places.size() - shown;
    text += more == 0 ? "" : "    and " + std::to_string(more) + " more\n";
  }
  return text;
}

std::string GroupsJson(const std::vector<StackGroup>& groups, const std::vector<StackText>& stacks,
                       bool whole) {
  OrderedJson json;
  json["groups"] = OrderedJson::array();
  for (const StackGroup& group : groups) {
    OrderedJson object;
    object["ranks"] = group.ranks;
    if (!group.node.empty()) {
      object["node"] = group.node;
    }
    object["headline"] = group.headline;
    object["frames"] = group.frames;
    json["groups"].push_back(std::move(object));
  }
  if (whole) {
    json["ranks"] = OrderedJson::array();
    for (const StackText& stack : stacks) {
      json["ranks"].push_back({{"rank", stack.rank}, {"node", stack.node}, {"text", stack.text}});
    }
  }
  return JsonText(json, 2) + "\n";
}

int PrintRunStacks(const RunStacksRequest& request) {
  Gathered gathered;
  const Result<void> told = [&]() -> Result<void> {
    ASSIGN_OR_RETURN(NodesAsked asked, AskNodes(request.server, request.spec, request.nodes));
    return GatherStacks(std::move(asked), gathered);
  }();
  if (!told) {
    ComplainOfStacks(told.error().message);
    return ExitCodeOf(told.error());
  }
  std::vector<StackText> stacks;
  for (auto& [rank, stack] : gathered.ranks) {
    stacks.push_back(std::move(stack));
  }
  if (stacks.empty()) {
    ComplainOfStacks("no worker of this run is running where it was looked");
    return 1;
  }
  if (const auto bare = std::ranges::find_if(stacks, MissesItsTool); bare != stacks.end()) {
    ComplainOfStacks("warning: of rank " + std::to_string(bare->rank) +
                     " only the kernel's view is known. For Python frames install py-spy in the "
                     "program's environment; for others install gdb");
  }
  const std::vector<StackGroup> groups = GroupStacks(stacks);
  std::string text = request.json ? GroupsJson(groups, stacks, request.whole) : "";
  if (!request.json) {
    for (const StackText& stack : stacks) {
      text += request.whole ? "==== node " + stack.node + "\n" + stack.text + "\n" : "";
    }
    text = Printable(text + FormatGroups(groups));
  }
  const int printed = PrintOut(text);
  return gathered.missed ? 1 : printed;
}

}  // namespace ddprun

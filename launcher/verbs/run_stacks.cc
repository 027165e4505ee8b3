#include "launcher/verbs/run_stacks.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "agent/watch/stack_dump.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/print_out.h"
#include "launcher/status_json.h"
#include "launcher/verbs/node_query.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

constexpr Duration kStacksPatience{60'000};  // A node takes 40 s at most.
constexpr std::size_t kShownFrames = 12;

// Why no frame of the rank's program is known, and what to do; "": they are.
std::string WhyFramesAreMissing(const StackText& stack) {
  const std::string view =
      "warning: only the kernel's view of rank " + std::to_string(stack.rank) + " is known";
  if (stack.text.find(kToolIsMissing) != stack.text.npos) {
    return view +
           ". For Python frames install py-spy in the program's environment; for others install "
           "gdb [no-stack-tool]";
  }
  const bool slow = stack.text.find(kToolTookTooLong) != stack.text.npos;
  return slow ? view +
                    ", because the tool that reads its frames took too long (the node is busy, or "
                    "the program is large). Try again"
              : "";
}

}  // namespace

std::string FormatGroups(const std::vector<StackGroup>& groups) {
  std::string text;
  for (const StackGroup& group : groups) {
    text += CountOf(static_cast<std::uint32_t>(group.ranks.size()), "rank") + " (" +
            RangesOf(group.ranks, ",") + (group.node.empty() ? "" : " on " + group.node) +
            "): " + group.headline + "\n";
    if (group.places.size() == 1 && group.places.front() == group.headline) {
      continue;  // The kernel's view is one line.
    }
    const std::size_t all = group.places.size();
    const std::size_t shown = all > kShownFrames + 1 ? kShownFrames - 1 : all;
    for (std::size_t i = 0; i < shown; ++i) {
      text += "    " + group.places[i] + "\n";
    }
    if (shown < all) {  // The outermost one is the program's own.
      text +=
          "    and " + std::to_string(all - shown - 1) + " more\n    " + group.places.back() + "\n";
    }
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
  std::map<std::uint32_t, StackText> ranks;
  NodeAnswers answers;
  const auto take = [&](const NodeId& node, const AnswerRecord& record) {
    StackText& stack = ranks[record.rank];
    stack.rank = record.rank;
    stack.node = node;
    stack.text += record.text;
  };
  Result<NodeQuery> query = QueryNodes(request.server, request.spec, request.nodes);
  const Result<void> all =
      query ? GatherAnswers(*std::move(query), "stacks", kStacksPatience, take, answers)
            : query.error();
  if (!all) {
    return PrintError("stacks", all.error());
  }
  for (const auto& [node, why] : answers.refused) {
    (void)PrintError("stacks", {ErrorKind::kSystem, "node " + node + ": " + why});
  }
  std::vector<StackText> stacks;
  for (auto& [rank, stack] : ranks) {
    stacks.push_back(std::move(stack));
  }
  if (stacks.empty()) {
    return PrintError("stacks", {ErrorKind::kSystem,
                                 "no worker of the run is running on the nodes that were asked"});
  }
  for (const StackText& stack : stacks) {
    if (const std::string why = WhyFramesAreMissing(stack); !why.empty()) {
      std::fprintf(stderr, "ddprun stacks: %s\n", InOneLine(why).c_str());
      break;
    }
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
  return answers.refused.empty() ? printed : 1;
}

}  // namespace ddprun

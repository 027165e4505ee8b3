#include "launcher/verbs/orders.h"

#include <map>
#include <utility>

#include "common/exit_code.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/print_out.h"
#include "launcher/status_json.h"
#include "launcher/verbs/node_query.h"
#include "rendezvous/client_asks.h"

namespace ddprun {
namespace {

constexpr Duration kControlPatience{5'000};

// A node's stacks take 40 s at most.
Duration PatienceWith(RequestKind kind) {
  return kind == RequestKind::kEvidence ? Duration{60'000} : Duration{15'000};
}

struct OrderAnswers {
  std::map<std::string, std::vector<std::uint32_t>> done;  // By what was done.
  std::map<std::string, std::vector<std::uint32_t>> not_done;
  NodeAnswers nodes;

  bool whole() const { return not_done.empty() && nodes.refused.empty(); }
};

Result<OrderAnswers> AskAll(const OrderRequest& request, const char* verb) {
  ASSIGN_OR_RETURN(NodeQuery query, QueryNodes(request.server, request.spec, request.nodes));
  OrderAnswers answers;
  const Result<void> all = GatherAnswers(
      std::move(query), verb, PatienceWith(request.spec.kind),
      [&](const NodeId& /*node*/, const AnswerRecord& record) {
        auto& texts = record.of == AnswerKind::kDone ? answers.done : answers.not_done;
        texts[record.text].push_back(record.rank);
      },
      answers.nodes);
  // A run that was asked to stop takes its server with it.
  if (!all && request.spec.kind != RequestKind::kStopSoon) {
    return all.error();
  }
  return answers;
}

std::string RanksOf(std::vector<std::uint32_t> ranks) {
  std::ranges::sort(ranks);
  return (ranks.size() == 1 ? "rank " : "ranks ") + RangesOf(ranks, ",");
}

std::string OrderText(const OrderAnswers& answers, RequestKind kind) {
  std::string text;
  if (kind == RequestKind::kStopSoon) {
    text = std::to_string(answers.nodes.whole.size()) +
           (answers.nodes.whole.size() == 1 ? " node saves and ends" : " nodes save and end") +
           "; exit code 75 where every worker has saved\n";
  }
  for (const auto& [what, ranks] : answers.done) {
    text += kind == RequestKind::kSave ? "asked to save (" + what + "): " + RanksOf(ranks) + "\n"
            : kind == RequestKind::kEvidence ? "kept in " + what + ": " + RanksOf(ranks) + "\n"
                                             : "";
  }
  return text;
}

OrderedJson ListOf(const std::map<std::string, std::vector<std::uint32_t>>& texts,
                   const char* word) {
  OrderedJson list = OrderedJson::array();
  for (const auto& [text, ranks] : texts) {
    list.push_back({{"ranks", ranks}, {word, text}});
  }
  return list;
}

std::string OrderJson(const OrderAnswers& answers, RequestKind kind) {
  OrderedJson json;
  std::vector<std::uint32_t> asked;
  for (const auto& [what, ranks] : answers.done) {
    asked.insert(asked.end(), ranks.begin(), ranks.end());
  }
  std::ranges::sort(asked);
  if (kind == RequestKind::kSave) {
    json["asked"] = asked;
    json["not_asked"] = ListOf(answers.not_done, "why");
  } else if (kind == RequestKind::kEvidence) {
    json["kept"] = ListOf(answers.done, "directory");
    json["not_kept"] = ListOf(answers.not_done, "why");
  }
  json["nodes"] = answers.nodes.whole;
  json["refused"] = OrderedJson::object();
  for (const auto& [node, why] : answers.nodes.refused) {
    json["refused"][node] = why;
  }
  return JsonText(json) + "\n";
}

}  // namespace

Result<std::string> AskFor(const ControlCommand& command) {
  ASSIGN_OR_RETURN(const ServerPlace place, FindServer(command.server));
  const ControlRequest asked{command.server.run_id, command.verb, command.node, place.access.token};
  ASSIGN_OR_RETURN(const std::string text, AskControl(place, asked, kControlPatience));
  return PrintableLine(text) + "\n";
}

int GiveOrder(const OrderRequest& request) {
  const RequestKind kind = request.spec.kind;
  const char* const verb = kind == RequestKind::kSave       ? "save"
                           : kind == RequestKind::kEvidence ? "stacks"
                                                            : "stop";
  const auto complain = [&](const std::string& text) {
    (void)PrintError(verb, {ErrorKind::kSystem, text});
  };
  const Result<OrderAnswers> answers = AskAll(request, verb);
  if (!answers) {
    return PrintError(verb, answers.error());
  }
  for (const auto& [why, ranks] : answers->not_done) {
    complain(RanksOf(ranks) + ": " + why);
  }
  for (const auto& [node, why] : answers->nodes.refused) {
    complain("node " + node + ": " + why);
  }
  const bool nothing = answers->done.empty() && answers->whole();
  if (nothing) {
    complain("no worker of the run is running on the nodes that were asked");
  }
  const std::string text = request.json ? OrderJson(*answers, kind) : OrderText(*answers, kind);
  const bool printed = PrintOut(Printable(text)) == kExitOk;
  return printed && answers->whole() && !nothing ? kExitOk : 1;
}

}  // namespace ddprun

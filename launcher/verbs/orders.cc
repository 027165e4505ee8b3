#include "launcher/verbs/orders.h"

#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

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

// A node's stacks take 40 s at most.
Duration PatienceWith(RequestKind kind) {
  return kind == RequestKind::kEvidence ? Duration{60'000} : Duration{15'000};
}

struct OrderAnswers {
  std::set<NodeId> left;
  std::map<std::string, std::vector<std::uint32_t>> done;  // By what was done.
  std::map<std::string, std::vector<std::uint32_t>> not_done;
  std::set<NodeId> nodes;
  std::map<NodeId, std::string> refusals;

  void Take(const AskReply& answered) {
    std::vector<AnswerRecord> records;
    std::string refusal = answered.piece.refusal;
    if (const Result<void> read = ReadRecords(answered.piece.bytes, records); !read) {
      refusal = read.error().message;
    }
    for (const AnswerRecord& record : records) {
      auto& told = record.of == AnswerKind::kDone ? done : not_done;
      told[record.text].push_back(record.rank);
    }
    if (!refusal.empty()) {
      refusals[answered.node] = refusal;
    } else {
      nodes.insert(answered.node);
    }
    if (answered.piece.last) {
      left.erase(answered.node);
    }
  }
  bool whole() const { return not_done.empty() && refusals.empty(); }
};

Result<OrderAnswers> AskAll(const OrderRequest& request) {
  ASSIGN_OR_RETURN(NodesAsked asked, AskNodes(request.server, request.spec, request.nodes));
  OrderAnswers answers;
  answers.left.insert(asked.asked().begin(), asked.asked().end());
  const Duration patience = PatienceWith(request.spec.kind);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!answers.left.empty()) {
    if (std::chrono::steady_clock::now() > end) {
      for (const NodeId& node : answers.left) {
        answers.refusals[node] = "it has not answered within " + FormatDuration(patience);
      }
      break;
    }
    const Result<std::optional<AskReply>> reply = asked.Next(kLookAgain);
    if (!reply && request.spec.kind == RequestKind::kStopSoon) {
      break;  // Its server went with it: what was asked for.
    }
    if (!reply) {
      return reply.error();
    }
    if (*reply) {
      answers.Take(**reply);
      asked.Want((*reply)->node);
    }
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
    text = std::to_string(answers.nodes.size()) +
           (answers.nodes.size() == 1 ? " node saves and ends" : " nodes save and end") +
           "; exit code 75 where every worker has saved\n";
  }
  for (const auto& [what, ranks] : answers.done) {
    text += kind == RequestKind::kSave ? "asked to save (" + what + "): " + RanksOf(ranks) + "\n"
            : kind == RequestKind::kEvidence ? "kept in " + what + ": " + RanksOf(ranks) + "\n"
                                             : "";
  }
  return text;
}

OrderedJson ListOf(const std::map<std::string, std::vector<std::uint32_t>>& told,
                   const char* word) {
  OrderedJson list = OrderedJson::array();
  for (const auto& [text, ranks] : told) {
    list.push_back({{"ranks", ranks}, {word, text}});
  }
  return list;
}

std::string OrderJson(const OrderAnswers& answers, RequestKind kind) {
  OrderedJson json;
  std::vector<std::uint32_t> told;
  for (const auto& [what, ranks] : answers.done) {
    told.insert(told.end(), ranks.begin(), ranks.end());
  }
  std::ranges::sort(told);
  if (kind == RequestKind::kSave) {
    json["told"] = told;
    json["not_told"] = ListOf(answers.not_done, "why");
  } else if (kind == RequestKind::kEvidence) {
    json["kept"] = ListOf(answers.done, "directory");
    json["not_kept"] = ListOf(answers.not_done, "why");
  }
  json["nodes"] = answers.nodes;
  json["refused"] = OrderedJson::object();
  for (const auto& [node, why] : answers.refusals) {
    json["refused"][node] = why;
  }
  return JsonText(json) + "\n";
}

}  // namespace

int GiveOrder(const OrderRequest& request) {
  const RequestKind kind = request.spec.kind;
  const char* const verb = kind == RequestKind::kSave       ? "save"
                           : kind == RequestKind::kEvidence ? "stacks"
                                                            : "stop";
  const auto complain = [&](const std::string& text) {
    std::fprintf(stderr, "ddprun %s: error: %s\n", verb, InOneLine(text).c_str());
  };
  const Result<OrderAnswers> answers = AskAll(request);
  if (!answers) {
    complain(answers.error().message);
    return ExitCodeOf(answers.error());
  }
  for (const auto& [why, ranks] : answers->not_done) {
    complain(RanksOf(ranks) + ": " + why);
  }
  for (const auto& [node, why] : answers->refusals) {
    complain("node " + node + ": " + why);
  }
  const bool nothing = answers->done.empty() && answers->whole();
  if (nothing) {
    complain("no worker of this run is running where it was asked");
  }
  const std::string text = request.json ? OrderJson(*answers, kind) : OrderText(*answers, kind);
  const bool printed = PrintOut(Printable(text)) == kExitOk;
  return printed && answers->whole() && !nothing ? kExitOk : 1;
}

}  // namespace ddprun

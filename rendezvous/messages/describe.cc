#include "rendezvous/messages/describe.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <type_traits>

#include "common/check.h"
#include "common/text.h"

namespace ddprun {
namespace {

// "--max-restarts=3"
template <class T>
std::string FlagOf(const SpecField<T>& field, const RunSpec& spec) {
  std::string flag = field.name;
  std::ranges::replace(flag, '_', '-');
  const T& value = spec.*field.member;
  if constexpr (std::is_same_v<T, Duration>) {
    return "--" + flag + "=" + FormatDuration(value);
  } else {
    return "--" + flag + "=" + std::to_string(value);
  }
}

// "[rank1]: ValueError: bad" without the rank: the lines of an exception begin so once there is a
// process group (_distributed_excepthook in torch/distributed/distributed_c10d.py).
std::string_view WithoutRank(std::string_view line) {
  constexpr std::string_view kBegin = "[rank";
  const std::size_t end = line.find("]: ");
  if (!line.starts_with(kBegin) || end == line.npos) {
    return line;
  }
  const std::string_view rank = line.substr(kBegin.size(), end - kBegin.size());
  return IsDigits(rank) ? line.substr(end + 3) : line;
}

std::string CutAtAWord(std::string_view line, std::size_t most) {
  const std::string text = Shortened(std::string(line), most);
  const std::size_t blank = text.rfind(' ');
  const bool in_a_word = line.size() > most && blank != std::string::npos && blank > most / 2;
  return in_a_word ? text.substr(0, blank) + "..." : text;
}

}  // namespace

std::string NameOf(const RunId& run_id) {
  return run_id == kUnnamedRun ? "run" : "run '" + run_id + "'";
}

std::string_view LastLineOf(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find_last_of('\n');
    const std::string_view line =
        WithoutRank(Trimmed(end == std::string_view::npos ? text : text.substr(end + 1)));
    if (!line.empty() && line.front() != '[') {
      return line;
    }
    text = end == std::string_view::npos ? std::string_view() : text.substr(0, end);
  }
  return {};
}

std::string ExceptionOf(const WorkerFailure& failure) {
  constexpr std::size_t kMostOfException = 200;
  const std::string& message = failure.details.message;  // Of @record.
  const std::string_view line = message.empty()
                                    ? LastLineOf(failure.last_lines)
                                    : std::string_view(message).substr(0, message.find('\n'));
  const std::string_view type = line.substr(0, line.find(':'));
  const bool named =
      type.find(' ') == type.npos && (type.ends_with("Error") || type.ends_with("Exception"));
  // Python writes the colon without a message too.
  return !named                                    ? ""
         : Trimmed(line).size() <= type.size() + 1 ? std::string(type)
                                                   : CutAtAWord(line, kMostOfException);
}

bool SaysPeerWasLost(std::string_view error) {
  const auto has_any = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view one) { return error.find(one) != error.npos; });
  };
  return has_any({"Connection closed by peer", "remote process exited", "got 0 bytes"}) ||
         (has_any({"Connection reset by peer", "Broken pipe"}) &&
          has_any({"gloo", "NCCL", "DistNetworkError", "DistBackendError"}));
}

std::string CountOf(std::uint32_t count, const std::string& one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

std::string Describe(const WorkerFailure& failure) {
  std::string where = "local rank " + std::to_string(failure.local_rank);
  if (failure.pid != 0) {
    where += ", pid " + std::to_string(failure.pid);
  }
  if (!failure.host.empty()) {
    where += ", host " + failure.host;
  }
  if (failure.nobody_lags) {
    return "the workers hang: " + failure.hang;
  }
  const bool killed = std::holds_alternative<Killed>(failure.status);
  const bool failed_first = failure.recorded && failure.stopped_by_us;
  std::string why = failure.details.message == kMemoryRanOut ? "memory ran out"
                    : killed && !failed_first                ? ""
                                                             : ExceptionOf(failure);
  why.insert(0, why.empty() ? "" : ": ");
  return "rank " + std::to_string(failure.rank) + " (" + where + ") " +
         (!failure.hang.empty() ? "hung: " + failure.hang
          : failed_first        ? "had failed, and was stopped before it had ended" + why
                         : (killed ? "was " : "ended with ") + Describe(failure.status) + why);
}

namespace {

std::string KeptOut(const WaitReason& reason) {
  return reason.unfit.empty() ? "" : "; kept out: " + Joined(reason.unfit, ", ");
}

std::string TooFew(const WaitReason& reason) {
  std::string text = "waiting for nodes: " + std::to_string(reason.have) + " of " +
                     std::to_string(reason.need) + " are here";
  if (!reason.missing.empty()) {
    text += "; missing " + Joined(reason.missing, " ");
  }
  text += KeptOut(reason);
  if (reason.remaining) {
    text += "; giving up in " + FormatDuration(*reason.remaining);
  }
  return text;
}

std::string HeldBack(const WaitReason& reason) {
  return std::string("held back") +
         (reason.remaining ? " for " + FormatDuration(*reason.remaining) : "") +
         ": this node was lost " + std::to_string(reason.losses) + " times in " +
         FormatDuration(reason.span);
}

std::string Backoff(const WaitReason& reason) {
  return "restarting in " + FormatDuration(reason.remaining.value_or(Duration{0})) +
         ": the workers failed " + std::to_string(reason.losses) +
         " times in a row without progress (--restart-backoff)";
}

std::string NoVerdict(const WaitReason& reason) {
  if (reason.missing.empty()) {
    return "waiting for the verdict of this node's check (--node-check)";
  }
  return "waiting for the verdict of the check (--node-check) of " + Joined(reason.missing, " ") +
         (reason.remaining ? "; continuing without it in " + FormatDuration(*reason.remaining)
                           : "");
}

}  // namespace

std::string Describe(const WaitReason& reason) {
  std::string text;
  switch (reason.what) {
    case WaitFor::kNodes:
      return TooFew(reason);
    case WaitFor::kLastCall:
      text = "waiting for more nodes: " + std::to_string(reason.have) + " of at most " +
             std::to_string(reason.want) + " are here" + KeptOut(reason);
      if (reason.remaining) {
        text += "; starting with " + std::to_string(reason.have) + " in " +
                FormatDuration(*reason.remaining);
      }
      return text;
    case WaitFor::kDrain:
      return "waiting for " + (reason.missing.empty() ? "all nodes" : Joined(reason.missing, " ")) +
             (reason.missing.size() == 1 ? " to stop its previous workers"
                                         : " to stop their previous workers");
    case WaitFor::kPeers:
      return "finished here, waiting for workers on " +
             (reason.missing.empty() ? "other nodes" : Joined(reason.missing, " "));
    case WaitFor::kSpare:
      return reason.have == 1 ? "the only node slot is taken, standing by as a spare"
                              : "all " + std::to_string(reason.have) +
                                    " node slots are taken, standing by as a spare";
    case WaitFor::kSettling:
      return "joining the running world of " + CountOf(reason.have, "node") +
             (reason.remaining ? " in " + FormatDuration(*reason.remaining) : "") +
             ", together with other nodes that come now";
    case WaitFor::kHeldBack:
      return HeldBack(reason);
    case WaitFor::kBackoff:
      return Backoff(reason);
    case WaitFor::kNoGrowth:
      return "the run continues with " + CountOf(reason.have, "node") +
             " and does not grow (--scale-up=never), standing by as a spare";
    case WaitFor::kFinishing:
      return "the run is finishing, this node is too late to join";
    case WaitFor::kEarlierSelf:
      return "waiting until another agent of this name or --node-rank is gone with its workers";
    case WaitFor::kRecovery:
      text = "the rendezvous server is new and collects reports: " + std::to_string(reason.have) +
             " of " + CountOf(reason.want, "node") + (reason.have == 1 ? " has" : " have") +
             " reported";
      if (!reason.missing.empty()) {
        text += "; missing " + Joined(reason.missing, " ");
      }
      if (reason.remaining) {
        text += "; continuing without the missing in " + FormatDuration(*reason.remaining);
      }
      return text + "; workers continue";
    case WaitFor::kClaim:
      return "cannot start: the server lost its leader lease (is the shared directory writable?). "
             "Waiting to regain it or for a new leader";
    case WaitFor::kOutcomeKept:
      return "the run has ended; waiting until the server has recorded its outcome";
    case WaitFor::kRoom:
      return "the server's limit of nodes for this run, or of agents for this node, is reached: "
             "waiting until it forgets some";
    case WaitFor::kCheck:
      return NoVerdict(reason);
    case WaitFor::kUnfit:
      return "refused by its node check: " + Joined(reason.unfit, " ") +
             "; this node is checked again, and joins when it passes";
  }
  return text;
}

namespace {

struct WordsOfCause {
  StopCause cause;
  const char* reason;
  const char* word;
};
constexpr std::array kWordsOfCauses{
    WordsOfCause{StopCause::kFailure, "a worker failed", "worker"},
    WordsOfCause{StopCause::kNodeLost, "a node was lost", "node_lost"},
    WordsOfCause{StopCause::kDeclaredLost, "this node was declared lost", "node_lost"},
    WordsOfCause{StopCause::kScaleUp, "a node joins", "scale_up"},
    WordsOfCause{StopCause::kLeave, "a node leaves", "leave"},
    WordsOfCause{StopCause::kOperator, "the run is stopped on request", "stop"},
    WordsOfCause{StopCause::kHang, "workers make no progress", "hang"},
    WordsOfCause{StopCause::kSuperseded, "its world is not the current one", "superseded"},
};

const WordsOfCause& WordsFor(StopCause cause) {
  const auto found = std::ranges::find(kWordsOfCauses, cause, &WordsOfCause::cause);
  CHECK(found != kWordsOfCauses.end());
  return *found;
}

}  // namespace

std::string Describe(StopCause cause) {
  return WordsFor(cause).reason;
}

std::string WordOf(StopCause cause) {
  return WordsFor(cause).word;
}

std::string Describe(const RunSpec& spec) {
  std::string text =
      "--nnodes=" + std::to_string(spec.min_nodes) + ":" + std::to_string(spec.max_nodes);
  ForEach(kSpecFields, [&](const auto& field) {
    const std::string_view name = field.name;
    const bool said = name == "min_nodes" || name == "max_nodes";  // By one flag.
    const bool set = spec.*field.member != RunSpec{}.*field.member;
    if ((field.mismatch == Mismatch::kRefuse && !said) ||
        (field.mismatch == Mismatch::kRefuseWhereSet && set)) {
      text += " " + FlagOf(field, spec);
    }
  });
  return text;
}

}  // namespace ddprun

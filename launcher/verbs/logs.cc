#include "launcher/verbs/logs.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "common/exit_code.h"
#include "common/log.h"
#include "launcher/status_json.h"
#include "launcher/verbs/asking.h"

namespace ddprun {
namespace {

constexpr Duration kPatience{15'000};        // For the next piece of a node that has none yet.
constexpr Duration kServerPatience{15'000};  // For a server that went while it was followed.

constexpr Duration kSlack{30'000};  // Nodes hear of it as late as that.

Time SteadyNow() {
  return Time(std::chrono::duration_cast<Time::duration>(
      std::chrono::steady_clock::now().time_since_epoch()));
}

std::int64_t UnixMs() {
  return std::chrono::floor<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string ClockTime(std::int64_t unix_ms) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  if (unix_ms <= 0 || ::localtime_r(&seconds, &parts) == nullptr) {
    return "            ";  // Of a file: nobody wrote down when.
  }
  char text[32];
  std::snprintf(text, sizeof text, "%02d:%02d:%02d.%03d", parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(unix_ms % 1000));
  return text;
}

// Until when what each worker printed was told, by its node's clock. Whoever asks another server
// asks for more than is missing, since nodes hear of it later; what was told is passed over by
// this.
using ToldUntil = std::map<std::tuple<NodeId, std::uint32_t, std::uint64_t>, std::int64_t>;

// What one server tells, from the first call to the end.
class LogsSession {
 public:
  LogsSession(NodesAsked asked, const LogsRequest& request, ToldUntil& until)
      : asked_(std::move(asked)),
        request_(request),
        until_(until),
        before_(until),
        merge_(request.wish.follow) {}

  // 0 when all is told; an error: the server did not answer to the end.
  Result<int> Run();
  bool told() const { return told_; }

 private:
  Result<void> Step();
  void OnPiece(const AnsweredPiece& answered);
  void GiveUpTheSilent();
  bool Print();

  NodesAsked asked_;
  const LogsRequest& request_;
  ToldUntil& until_;
  const ToldUntil before_;  // What earlier servers told.
  LogMerge merge_;
  std::map<NodeId, Time> waits_;  // Since when, for its next piece.
  std::map<NodeId, std::uint64_t> numbers_;
  std::set<std::string> said_;
  bool told_ = false;  // The server has answered.
  bool missed_ = false;
};

void ComplainOfLogs(const std::string& text) {
  std::fprintf(stderr, "ddprun logs: %s\n", Printable(text).c_str());
}

Result<int> LogsSession::Run() {
  do {
    if (!told_ || merge_.Expects()) {
      RETURN_IF_ERROR(Step());
    } else {  // The server has told all, and has forgotten that it was asked.
      std::this_thread::sleep_for(LogMerge::kHeld / 2);
    }
    if (!Print()) {
      return 1;
    }
  } while (!merge_.Ended());
  return missed_ ? 1 : kExitOk;
}

Result<void> LogsSession::Step() {
  const Duration wait = merge_.Holds() ? LogMerge::kHeld / 2 : kLongestWait;
  std::vector<TakenPiece> used = merge_.Used();
  for (const TakenPiece& taken : used) {
    waits_[taken.node] = SteadyNow();
  }
  ASSIGN_OR_RETURN(const AskReply reply, asked_.Call(std::move(used), wait));
  for (const NodeId& node : reply.asked) {
    merge_.Expect(node);
    waits_[node] = SteadyNow();
  }
  if (!std::exchange(told_, true) && reply.asked.empty()) {
    ComplainOfLogs("the run has no node yet");
    missed_ = true;
  }
  for (const AnsweredPiece& answered : reply.pieces) {
    OnPiece(answered);
  }
  GiveUpTheSilent();
  return {};
}

void LogsSession::OnPiece(const AnsweredPiece& answered) {
  const auto& [node, piece] = answered;
  waits_.erase(node);
  if (piece.number > numbers_[node]) {
    numbers_[node] = piece.number;
    std::vector<ErrandRecord> records;
    if (const Result<void> read = ReadRecords(piece.bytes, records); !read) {
      ComplainOfLogs("node " + node + ": " + read.error().message);
      missed_ = true;
    }
    std::erase_if(records, [&, &node = node](const ErrandRecord& record) {
      const auto told = before_.find({node, record.rank, record.generation});
      return told != before_.end() && record.unix_ms <= told->second;
    });
    merge_.Add(node, piece.number, std::move(records), SteadyNow());
  }
  if (!piece.refusal.empty()) {
    ComplainOfLogs("node " + node + ": " + piece.refusal);
    missed_ = true;
  }
  if (piece.last) {
    merge_.End(node);
  }
}

// Others are not held up by a node whose agent stands still.
void LogsSession::GiveUpTheSilent() {
  if (request_.wish.follow) {
    return;  // It may have nothing to say, and holds up nobody.
  }
  const Time now = SteadyNow();
  std::erase_if(waits_, [&](const auto& wait) {
    const bool over = now - wait.second > kPatience;
    if (over) {
      ComplainOfLogs("node " + wait.first + " has not answered within " +
                     FormatDuration(kPatience) + ": what it has is missing");
      missed_ = true;
      merge_.End(wait.first);
    }
    return over;
  });
}

bool LogsSession::Print() {
  bool printed = true;
  for (std::vector<LogLine> lines = merge_.Take(SteadyNow()); !lines.empty() && printed;
       lines = merge_.Take(SteadyNow())) {
    for (const LogLine& line : lines) {
      std::int64_t& until = until_[{line.node, line.rank, line.generation}];
      until = std::max(until, line.unix_ms);
      if (line.of == ErrandStream::kNote) {
        if (said_.insert(line.node + line.text).second) {
          ComplainOfLogs("node " + line.node + ": " + line.text);
        }
        continue;
      }
      printed = printed && std::fputs(FormatLogLine(line, request_.json).c_str(), stdout) >= 0;
    }
  }
  return std::fflush(stdout) == 0 && printed;
}

}  // namespace

std::string FormatLogLine(const LogLine& line, bool json) {
  const bool is_error = line.of == ErrandStream::kErr;
  if (!json) {
    return ClockTime(line.unix_ms) + " [r" + std::to_string(line.rank) + " " + line.node +
           (is_error ? "!] " : "] ") + line.text + "\n";
  }
  OrderedJson object;
  if (line.unix_ms > 0) {
    object["unix_time"] = static_cast<double>(line.unix_ms) / 1000;
  }
  object["node"] = line.node;
  object["rank"] = line.rank;
  object["generation"] = line.generation;
  object["stream"] = is_error ? "stderr" : "stdout";
  object["text"] = line.text;
  return JsonText(object) + "\n";
}

// A server that went while it was followed has a successor, or comes back, or the run is over.
int PrintLogs(const LogsRequest& request) {
  LogsRequest wanted = request;
  std::optional<Time> lost;
  ToldUntil until;
  while (true) {
    Result<NodesAsked> asked = NodesAsked::Find(wanted.server, wanted.wish, wanted.nodes);
    Result<int> code = asked ? Result<int>(0) : asked.error();
    if (asked) {
      LogsSession session(*std::move(asked), wanted, until);
      code = session.Run();
      lost = session.told() ? std::nullopt : lost;
    }
    if (code) {
      return *code;
    }
    const bool may_return =
        code.error().kind == ErrorKind::kUnavailable || code.error().kind == ErrorKind::kNotFound;
    const bool begun = !until.empty() || lost;
    lost = lost.value_or(SteadyNow());
    if (!request.wish.follow || !begun || !may_return || SteadyNow() - *lost > kServerPatience) {
      ComplainOfLogs(code.error().message);
      return ExitCodeOf(code.error());
    }
    std::int64_t newest = 0;
    for (const auto& [worker, when] : until) {
      newest = std::max(newest, when);
    }
    wanted.wish.back = kSlack + Duration(std::max<std::int64_t>(0, UnixMs() - newest));
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace ddprun

#include "launcher/verbs/logs.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "common/exit_code.h"
#include "common/log.h"
#include "common/slug.h"
#include "common/wall_clock.h"
#include "launcher/print_out.h"
#include "launcher/status_json.h"
#include "launcher/verbs/log_files.h"
#include "launcher/verbs/node_query.h"
#include "launcher/verbs/pool_status.h"
#include "launcher/verbs/seen_records.h"
#include "launcher/verbs/slow_output.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

constexpr Duration kPatience{15'000};        // For the next piece of a node that has none yet.
constexpr Duration kServerPatience{15'000};  // For a server that went while it was followed.

// Of one node, without --follow: the output that it keeps, and the ends of files.
constexpr std::size_t kMostOfNode = std::size_t{1} << 30;
constexpr std::size_t kMostTaken = 4'096;  // Pieces in one round.
constexpr Duration kUnread{500};           // Between two looks whether output has room again.

std::string ClockTime(std::int64_t unix_ms) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  if (unix_ms <= 0 || ::localtime_r(&seconds, &parts) == nullptr) {
    return "            ";  // Of a file, which has no times.
  }
  char text[32];
  std::snprintf(text, sizeof text, "%02d:%02d:%02d.%03d", parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(unix_ms % 1000));
  return text;
}

void SayOfLogs(const std::string& text) {
  std::fprintf(stderr, "ddprun logs: %s\n", InOneLine(text).c_str());
}

std::string ServerGone(const ServerPlace& place) {
  return "the server of " + (place.run_id.empty() ? "the run" : NameOf(place.run_id)) + " at " +
         place.Where() + " is gone";
}

// Of a launch that follows its run: where errors go, and when it is to stop.
struct FollowerView {
  SlowOutput& errors;
  std::function<bool(bool idle)> stops;  // `idle`: no piece has come for a while.
};

// The answers of one server, from the first call to the end. The merge and what has come already
// are the verb's: a verb that asks another server asks for more than is missing, since nodes hear
// of it later.
class LogsSession {
 public:
  LogsSession(NodeQuery query, const LogsRequest& request, LogMerge& merge, SeenRecords& records,
              SlowOutput& output, FollowerView* follower = nullptr)
      : query_(std::move(query)),
        request_(request),
        merge_(merge),
        records_(records),
        output_(output),
        follower_(follower) {
    for (const NodeId& node : query_.nodes()) {
      merge_.Expect(node);
      known_.insert(node);
      waits_[node] = SteadyNow();
    }
    if (query_.nodes().empty()) {
      Complain("the run has no node yet");
      missed_ = true;
    }
  }

  // 0 when all is printed; an error: the server did not answer to the end.
  Result<int> Run();

 private:
  void Complain(const std::string& text) {
    if (follower_ == nullptr) {
      SayOfLogs("warning: " + text);
    }
  }
  // A reader that stands still holds up the nodes, but is not forgotten by the server.
  bool HasRoom() const {
    return output_.HasRoom() && (follower_ == nullptr || follower_->errors.HasRoom());
  }
  bool Ends() const {
    if (follower_ == nullptr) {
      return merge_.Ended();
    }
    const bool idle = !merge_.Holds() && SteadyNow() >= came_ + 2 * LogMerge::kHeld;
    return follower_->stops(merge_.Ended() || idle);
  }
  Result<void> Step();
  void OnPiece(const NodeId& node, const AnswerPiece& piece);
  void GiveUpTheSilent();
  void GiveUp(const NodeId& node, const std::string& why);
  void Print();

  NodeQuery query_;
  const LogsRequest& request_;
  LogMerge& merge_;
  SeenRecords& records_;
  SlowOutput& output_;
  FollowerView* const follower_;  // nullptr: the verb.
  Time came_ = SteadyNow();       // The last piece that has something.
  std::map<NodeId, Time> waits_;  // Since when, for its next piece.
  std::map<NodeId, std::size_t> bytes_;
  std::set<NodeId> given_up_;
  std::set<NodeId> known_;  // That have sent something, or are to.
  std::set<NodeId> ended_;  // That have sent their last piece.
  std::set<std::string> said_;
  bool missed_ = false;
  bool printed_ = false;
};

Result<int> LogsSession::Run() {
  do {
    if (merge_.Expects() || follower_ != nullptr) {
      RETURN_IF_ERROR(Step());
    } else {  // The nodes have sent all.
      std::this_thread::sleep_for(LogMerge::kHeld / 2);
    }
    if (HasRoom()) {
      Print();
    }
    if (output_.failed()) {
      return 1;
    }
  } while (!Ends());
  if (!printed_ && said_.empty() && !missed_ && request_.spec.lines != 0) {
    Complain(
        "no output of these ranks: they have printed nothing, or the run does not have "
        "them (ddprun status lists the ranks)");
  }
  return output_.Finish() && !missed_ ? kExitOk : 1;
}

Result<void> LogsSession::Step() {
  const Duration wait = !HasRoom()                               ? kUnread
                        : merge_.Holds() || follower_ != nullptr ? LogMerge::kHeld / 2
                                                                 : kPieceWait;
  for (const NodeId& node : merge_.Used()) {
    waits_.try_emplace(node, SteadyNow());  // An entry that exists stays.
    query_.Want(node);
  }
  // All that has come is taken at once: the rest of a round walks all nodes.
  ASSIGN_OR_RETURN(std::optional<AskReply> reply, query_.Next(wait));
  for (std::size_t taken = 0; reply && taken < kMostTaken; ++taken) {
    OnPiece(reply->node, reply->piece);
    ASSIGN_OR_RETURN(reply, query_.Next(Duration{0}));
  }
  if (reply) {
    OnPiece(reply->node, reply->piece);
  }
  GiveUpTheSilent();
  return {};
}

void LogsSession::OnPiece(const NodeId& node, const AnswerPiece& piece) {
  if (given_up_.contains(node)) {
    return;
  }
  if (!piece.bytes.empty() || piece.last) {
    waits_.erase(node);
  }
  const bool again = ended_.erase(node) > 0;
  if (known_.insert(node).second || again) {  // It has joined since, or came back.
    merge_.Expect(node);
  }
  if (again) {
    records_.BeginAgain();
  }
  came_ = piece.bytes.empty() ? came_ : SteadyNow();
  bytes_[node] += piece.bytes.size();
  if (!request_.spec.follow && bytes_[node] > kMostOfNode) {
    GiveUp(node, "has sent more output than a node keeps; ignoring the rest");
  }
  std::vector<AnswerRecord> records;
  if (const Result<void> read = ReadRecords(piece.bytes, records); !read) {
    Complain("node " + node + ": " + read.error().message);
    missed_ = true;
  }
  std::erase_if(records, [&](const AnswerRecord& record) {
    const bool is_new = records_.IsNew(node, record);
    if (!is_new && record.unix_ms == 0 && said_.insert(node + " files").second) {
      Complain("node " + node +
               ": the server has changed, and the workers' log files are not followed any further. "
               "Start ddprun logs -f again");
      missed_ = true;
    }
    return !is_new;
  });
  merge_.Add(node, std::move(records), SteadyNow());
  if (!piece.refusal.empty()) {
    Complain("node " + node + ": " + piece.refusal);
    missed_ = true;
  }
  if (piece.last) {
    merge_.End(node);
    ended_.insert(node);
  }
}

// Others are not held up by a node whose agent stands still.
void LogsSession::GiveUpTheSilent() {
  if (request_.spec.follow) {
    return;  // It may have nothing to say, and delays no other node.
  }
  const Time now = SteadyNow();
  std::erase_if(waits_, [&](const auto& wait) {
    const bool over = now - wait.second > kPatience;
    if (over) {
      GiveUp(wait.first,
             "has not answered within " + FormatDuration(kPatience) + "; its output is missing");
    }
    return over;
  });
}

void LogsSession::GiveUp(const NodeId& node, const std::string& why) {
  Complain("node " + node + " " + why);
  missed_ = true;
  given_up_.insert(node);
  merge_.End(node);
}

void LogsSession::Print() {
  std::string text;
  std::string errors;
  for (std::vector<LogLine> lines = merge_.Take(SteadyNow()); !lines.empty();
       lines = merge_.Take(SteadyNow())) {
    for (const LogLine& line : lines) {
      if (follower_ != nullptr) {
        (line.of == AnswerKind::kErr ? errors : text) +=
            line.of == AnswerKind::kNote ? "" : "[" + line.node + "] " + line.text + "\n";
      } else if (line.of != AnswerKind::kNote) {
        text += FormatLogLine(line, request_.json);
      } else if (said_.insert(line.node + line.text).second) {
        Complain("node " + line.node + ": " + line.text);
      }
    }
  }
  printed_ = printed_ || !text.empty();
  output_.Put(text);
  if (follower_ != nullptr) {
    follower_->errors.Put(errors);
  }
}

// A run of a pool that its server does not know.
std::optional<PoolQueued> Queued(const Error& error, const ServerQuery& server) {
  if (error.kind != ErrorKind::kNotFound || server.pool.empty()) {
    return std::nullopt;
  }
  const Result<ServerPlace> place = FindServer(server);
  return place ? QueuedRun(*place, server.run_id) : std::nullopt;
}

// Waits a moment if the run will come; the exit code: there is nothing to wait for.
std::optional<int> AwaitInPool(const PoolQueued& queued, LogsRequest& wanted, std::string& said) {
  const std::string state = NameOf(queued.run_id) + " " + queued.state;
  const bool waits = queued.phase == PoolRunPhase::kWaits;
  if (!wanted.spec.follow || !(waits || queued.phase == PoolRunPhase::kRuns)) {
    return PrintError("logs", {ErrorKind::kNotFound, state});
  }
  if (waits && std::exchange(said, state) != state) {
    SayOfLogs(state);
    wanted.spec.lines.reset();  // It has printed nothing yet: all is what follows.
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  return std::nullopt;
}

bool IsNowhere(const Result<ServerPlace>& place) {
  return !place && place.error().kind == ErrorKind::kUnavailable;
}

// Whether nothing that is asked knows the run.
bool IsNoRun(const Result<ServerPlace>& place, const Error& error) {
  return IsNowhere(place) || (place && error.kind == ErrorKind::kNotFound);
}

// Another server is asked for all that came after the last record.
void BeginAgain(RequestSpec& spec, LogMerge& merge, SeenRecords& records) {
  constexpr Duration kSlack{30'000};  // A node may open its stream so late.
  const std::int64_t now = UnixMilliseconds();
  spec.back = kSlack + Duration(std::max<std::int64_t>(0, now - records.newest().value_or(now)));
  merge.BeginAgain();
  records.BeginAgain();
}

int PrintUnanswered(const Result<ServerPlace>& place, const Error& error) {
  return PrintError(
      "logs", {error.kind,
               Continue(error.message, IsNowhere(place) ? "; for a run that has ended, name the "
                                                          "directory of its logs: ddprun logs DIR"
                                                        : "")});
}

int PrintDirectory(const LogsRequest& request) {
  const RequestSpec& spec = request.spec;
  return spec.ranks.empty() && request.nodes.empty() && !request.json && !spec.follow && !spec.back
             ? PrintLogFiles(request.word, spec.lines)
             : PrintError("logs", Invalid("ddprun logs DIR takes no option but -n, and shows all "
                                          "files of",
                                          request.word));
}

}  // namespace

std::string FormatLogLine(const LogLine& line, bool json) {
  const bool is_error = line.of == AnswerKind::kErr;
  if (!json) {
    return ClockTime(line.unix_ms) + " [r" + std::to_string(line.rank) + " " + line.node +
           (is_error ? "!] " : "] ") + PrintableLine(line.text) + "\n";
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
  if (NamesDirectory(request.word)) {
    return PrintDirectory(request);
  }
  LogsRequest wanted = request;
  std::optional<ServerPlace> followed;
  std::optional<Time> lost;
  std::string said_wait;  // Of a run of a pool.
  LogMerge merge(request.spec.follow);
  SeenRecords records;
  SlowOutput output;
  while (true) {
    const Result<ServerPlace> place = FindServer(wanted.server);
    Result<NodeQuery> query =
        place ? QueryNodes(*place, wanted.server.run_id, wanted.spec, wanted.nodes) : place.error();
    Result<int> code = query ? Result<int>(0) : query.error();
    if (query) {
      if (!place->run_id.empty()) {  // Another run of this user is no successor.
        wanted.server.run_id = place->run_id;
      }
      followed = *place;
      LogsSession session(*std::move(query), wanted, merge, records, output);
      code = session.Run();
      lost.reset();
    }
    if (code) {
      return *code;
    }
    if (const auto queued = Queued(code.error(), wanted.server); queued && !followed) {
      if (const auto end = AwaitInPool(*queued, wanted, said_wait)) {
        return *end;
      }
      continue;
    }
    const bool may_return =
        code.error().kind == ErrorKind::kUnavailable || code.error().kind == ErrorKind::kNotFound;
    lost = lost.value_or(SteadyNow());
    if (!request.spec.follow || !followed || !may_return) {
      output.Finish();
      return !followed && IsNoRun(place, code.error()) && HasLogFiles(request.word)
                 ? PrintDirectory(request)
                 : PrintUnanswered(place, code.error());
    }
    if (HasEnded(*followed)) {
      SayOfLogs("warning: " + ServerGone(*followed) +
                ": the run has ended, and its last lines may be missing");
      return output.Finish() ? kExitOk : 1;
    }
    if (SteadyNow() - *lost > kServerPatience) {
      output.Finish();
      return PrintError("logs", {ErrorKind::kUnavailable,
                                 ServerGone(*followed) + ", and no other has taken over within " +
                                     FormatDuration(kServerPatience)});
    }
    wanted.spec.lines.reset();  // All that was printed meanwhile is wanted.
    BeginAgain(wanted.spec, merge, records);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

RunFollower::RunFollower(ServerPlace place, RunId run_id)
    : place_(std::move(place)),
      run_id_(std::move(run_id)),
      thread_([this](const std::stop_token& leaves) { Follow(leaves); }) {}

void RunFollower::Follow(const std::stop_token& leaves) {
  constexpr Duration kAskAgain{50};
  constexpr Duration kLongestPause{1'000};
  Duration pause = kAskAgain;  // Each question is a connection of its own.
  LogsRequest request;
  request.spec.follow = true;
  LogMerge merge(/*follow=*/true);
  SeenRecords records;
  SlowOutput output(STDOUT_FILENO);
  SlowOutput errors(STDERR_FILENO);
  FollowerView view{errors, [&](bool idle) {
                      prints_ = !output.Idle() || !errors.Idle();
                      return leaves.stop_requested() || (over_ && idle && !prints_);
                    }};
  for (bool last = false; !last && !leaves.stop_requested();) {
    last = over_;
    Result<NodeQuery> query = QueryNodes(place_, run_id_, request.spec, {});
    pause = query ? kAskAgain : std::min(2 * pause, kLongestPause);
    if (query) {
      LogsSession session(*std::move(query), request, merge, records, output, &view);
      const Result<int> ended = session.Run();
      last = over_ && ended;
      if (output.failed() || errors.failed()) {
        break;
      }
      BeginAgain(request.spec, merge, records);
    }
    if (!last) {
      std::this_thread::sleep_for(pause);
    }
  }
  if (!leaves.stop_requested()) {
    prints_ = true;
    output.Finish();
    errors.Finish();
  }
  done_ = true;
}

}  // namespace ddprun

#include "launcher/verbs/watch_status.h"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <vector>

#include "common/exit_code.h"
#include "common/json.h"
#include "common/log.h"
#include "launcher/print_out.h"
#include "launcher/status_json.h"
#include "launcher/verbs/node_query.h"
#include "launcher/verbs/pool_status.h"

namespace ddprun {
namespace {

constexpr Duration kLookEvery{1'000};
constexpr Duration kServerLost{15'000};  // A takeover is over by then.
constexpr std::size_t kRows = 24;        // Of a run with many nodes.
constexpr const char* kClearScreen = "\033[H\033[J";

struct LookText {
  std::string text;
  bool over = false;  // The run.
};

Result<LookText> LookOnce(const StatusRequest& request) {
  LookText look;
  if (AsksForPool(request.server)) {
    ASSIGN_OR_RETURN(look.text, PoolNow(request.server, request.json));
  } else {
    ASSIGN_OR_RETURN(const ServerPlace place, FindServer(request.server));
    ASSIGN_OR_RETURN(const std::vector<RunStatus> runs, RunsAt(place, request.server.run_id));
    const std::int64_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    look.text = request.json       ? StatusJson(runs, place.Where(), now)
                : runs.size() == 1 ? FormatScreen(runs.front(), now, kRows)
                                   : FormatStatus(runs, place.Where(), now);
    look.over = runs.size() == 1 && !runs.front().outcome.empty();
  }
  if (request.json) {
    look.text = JsonText(ParseJson<OrderedJson>(look.text));  // On one line.
  }
  return look;
}

std::string TextOfFailure(const Error& error, Duration since, bool json) {
  if (!json) {
    return InOneLine("no answer for " + FormatDuration(since) + ": " + error.message) + "\n";
  }
  OrderedJson object;
  object["no_answer_seconds"] = static_cast<double>(since.count()) / 1000;
  object["why"] = error.message;
  return JsonText(object);
}

}  // namespace

int WatchStatus(const StatusRequest& request) {
  const char* const before = !request.json && ::isatty(STDOUT_FILENO) == 1 ? kClearScreen : "";
  std::optional<Time> lost;
  for (bool first = true;; first = false) {
    const Result<LookText> look = LookOnce(request);
    const Time now = SteadyNow();
    std::string text;
    if (look) {
      lost.reset();
      text = look->text;
    } else {
      lost = lost.value_or(now);
      const bool may_return = look.error().kind == ErrorKind::kUnavailable;
      if (first || !may_return || now - *lost > kServerLost) {
        return PrintError("status", look.error());
      }
      text = TextOfFailure(look.error(), std::chrono::ceil<Duration>(now - *lost), request.json);
    }
    if (const int printed = PrintOut(before + text + "\n"); printed != kExitOk) {
      return printed;
    }
    if (look && look->over) {
      return kExitOk;
    }
    (void)::poll(nullptr, 0, static_cast<int>(kLookEvery.count()));
  }
}

}  // namespace ddprun

#include "launcher/verbs/watch_status.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "common/exit_code.h"
#include "common/json.h"
#include "common/log.h"
#include "launcher/headline.h"
#include "launcher/status_json.h"
#include "launcher/verbs/screen.h"

namespace ddprun {
namespace {

constexpr Duration kLookEvery{1'000};
constexpr Duration kServerLost{15'000};  // A takeover is over by then.

Time WatchClock() {
  return Time(std::chrono::duration_cast<Time::duration>(
      std::chrono::steady_clock::now().time_since_epoch()));
}

struct SeenRuns {
  std::string where;
  std::vector<RunStatus> runs;
};

Result<SeenRuns> LookOnce(const ServerQuery& server) {
  ASSIGN_OR_RETURN(const ServerPlace place, FindServer(server));
  SeenRuns look{place.Where(), {}};
  ASSIGN_OR_RETURN(look.runs, RunsAt(place, server.run_id));
  return look;
}

std::string TextOfLook(const SeenRuns& look, const StatusRequest& request, ScreenSize size) {
  const std::int64_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  if (request.json) {
    return JsonText(
        ParseJson<OrderedJson>(StatusJson(look.runs, look.where, now)));  // On one line.
  }
  if (look.runs.size() != 1) {
    return FormatStatus(look.runs, look.where, now);
  }
  return FormatScreen(look.runs.front(), now, size.rows);
}

std::string TextOfFailure(const Error& error, Duration since, bool json) {
  if (!json) {
    return Printable("no answer for " + FormatDuration(since) + ": " + error.message) + "\n";
  }
  OrderedJson object;
  object["no_answer_seconds"] = static_cast<double>(since.count()) / 1000;
  object["why"] = error.message;
  return JsonText(object);
}

}  // namespace

int WatchStatus(const StatusRequest& request) {
  const char* const term = std::getenv("TERM");
  Screen screen(request.top && !request.json && term != nullptr ? term : "");
  std::optional<Time> lost;
  std::string last;
  for (bool first = true;; first = false) {
    const Result<SeenRuns> look = LookOnce(request.server);
    const Time now = WatchClock();
    bool ended = false;
    std::string text;
    if (look) {
      lost.reset();
      ended = look->runs.size() == 1 && !look->runs.front().outcome.empty();
      text = TextOfLook(*look, request, screen.Size());
      last = text;
    } else {
      lost = lost.value_or(now);
      const bool may_return = look.error().kind == ErrorKind::kUnavailable;
      if (first || !may_return || now - *lost > kServerLost) {
        screen.Give();
        std::fprintf(stderr, "ddprun %s: %s\n", request.top ? "top" : "status",
                     Printable(look.error().message).c_str());
        return ExitCodeOf(look.error());
      }
      text = TextOfFailure(look.error(), std::chrono::ceil<Duration>(now - *lost), request.json) +
             (screen.redraws() ? "\n" + last : "");
    }
    if (!screen.Draw(screen.redraws() ? Fitted(text, screen.Size()) : text)) {
      return 1;
    }
    if (ended) {
      screen.Give();
      if (screen.redraws()) {  // What is left to be read.
        std::fputs(last.c_str(), stdout);
      }
      return kExitOk;
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace ddprun

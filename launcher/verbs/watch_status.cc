#include "launcher/verbs/watch_status.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "common/exit_code.h"
#include "common/json.h"
#include "common/log.h"
#include "launcher/headline.h"
#include "launcher/status_json.h"
#include "launcher/verbs/screen.h"
#include "launcher/verbs/stacks_child.h"
#include "launcher/verbs/top_screen.h"

namespace ddprun {
namespace {

using TopClock = std::chrono::steady_clock;

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

// As it is printed where there is no screen.
std::string PlainText(const SeenRuns& look, const StatusRequest& request, std::size_t rows) {
  const std::int64_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  if (request.json) {
    return JsonText(
        ParseJson<OrderedJson>(StatusJson(look.runs, look.where, now)));  // On one line.
  }
  return look.runs.size() == 1 ? FormatScreen(look.runs.front(), now, rows)
                               : FormatStatus(look.runs, look.where, now);
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

// One run on a screen: what was seen last, and what its keys make of it.
class Top {
 public:
  Top(const StatusRequest& request, Screen& screen) : request_(request), screen_(screen) {}

  void See(const SeenRuns& look) { look_ = look; }
  // False: nobody reads.
  bool Draw(const std::string& failure) {
    failure_ = failure;
    return Draw();
  }
  // Until the next look. False: the user quits, or nobody reads.
  bool Wait(Duration until);
  std::string Text();

 private:
  bool Draw() {
    const std::string text = failure_.empty() ? Text() : failure_ + "\n" + Text();
    return screen_.Draw(Fitted(text, screen_.Size()));
  }
  void Ask();
  bool Take(const std::vector<TopKey>& keys);

  const StatusRequest& request_;
  Screen& screen_;
  SeenRuns look_;
  std::string failure_;
  TopState state_;
  KeyReader keys_;
  TopClock::time_point late_;  // The rest of a key, where one has begun.
  StacksChild stacks_;
};

std::string Top::Text() {
  const std::int64_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  if (look_.runs.size() != 1) {
    return look_.runs.empty() ? "" : PlainText(look_, request_, screen_.Size().rows);
  }
  return screen_.has_keys() ? FormatTop(look_.runs.front(), now, screen_.Size(), state_)
                            : FormatScreen(look_.runs.front(), now, screen_.Size().rows);
}

void Top::Ask() {
  const TopRow* const row = state_.Chosen();
  if (row == nullptr || row->ranks.empty()) {
    return;
  }
  stacks_.Begin(request_.server, row->ranks);
  state_.help = false;
  state_.scrolled = 0;
  state_.panel = "stacks of " + row->name + ":\n" + stacks_.text();
}

// False: quit.
bool Top::Take(const std::vector<TopKey>& keys) {
  for (const TopKey key : keys) {
    if (key == TopKey::kQuit) {
      return false;
    }
    if (key == TopKey::kStacks) {
      Ask();
    } else {
      Press(state_, key);
    }
  }
  return true;
}

bool Top::Wait(Duration until) {
  const auto end = TopClock::now() + until;
  for (;;) {
    const auto now = TopClock::now();
    if (now >= end) {
      return true;
    }
    const bool late = keys_.waits() && now >= late_;  // Unless it has come by now.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        late ? TopClock::duration(0) : (keys_.waits() ? std::min(late_, end) : end) - now);
    std::array<pollfd, 2> ready{pollfd{screen_.has_keys() ? STDIN_FILENO : -1, POLLIN, 0},
                                pollfd{stacks_.fd(), POLLIN, 0}};
    const int found = ::poll(ready.data(), ready.size(), static_cast<int>(left.count()));
    if (found < 0 || (found == 0 && !late)) {
      continue;  // Time is over, or a signal came.
    }
    if (late && ready[0].revents == 0 && !Take(keys_.ReadLate())) {
      return false;
    }
    if (ready[1].revents != 0) {
      const std::size_t told = stacks_.text().size();
      stacks_.Read();
      if (!state_.panel.empty() && !state_.help) {
        state_.panel += stacks_.text().substr(told);
      }
    }
    if (ready[0].revents != 0) {
      std::array<char, 256> bytes;
      const ssize_t size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
      if (size == 0 || (size < 0 && errno != EINTR)) {
        return false;  // The terminal is gone.
      }
      late_ = TopClock::now() + KeyReader::kRestOfKey;
      if (size > 0 && !Take(keys_.Read({bytes.data(), static_cast<std::size_t>(size)}))) {
        return false;
      }
    }
    if (!Draw()) {
      return false;
    }
  }
}

}  // namespace

int WatchStatus(const StatusRequest& request) {
  const char* const term = std::getenv("TERM");
  Screen screen(request.top && !request.json && term != nullptr ? term : "", request.top);
  Top top(request, screen);
  std::optional<Time> lost;
  for (bool first = true;; first = false) {
    const Result<SeenRuns> look = LookOnce(request.server);
    const Time now = WatchClock();
    bool ended = false;
    std::string failure;
    if (look) {
      lost.reset();
      ended = look->runs.size() == 1 && !look->runs.front().outcome.empty();
      top.See(*look);
    } else {
      lost = lost.value_or(now);
      const bool may_return = look.error().kind == ErrorKind::kUnavailable;
      if (first || !may_return || now - *lost > kServerLost) {
        screen.Give();
        std::fprintf(stderr, "ddprun %s: %s\n", request.top ? "top" : "status",
                     InOneLine(look.error().message).c_str());
        return ExitCodeOf(look.error());
      }
      failure = TextOfFailure(look.error(), std::chrono::ceil<Duration>(now - *lost), request.json);
    }
    const bool drawn =
        screen.redraws()
            ? top.Draw(failure)
            : screen.Draw(look ? PlainText(*look, request, screen.Size().rows) : failure);
    if (!drawn) {
      return 1;
    }
    if (ended) {
      screen.Give();
      if (screen.redraws()) {  // What is left to be read.
        std::fputs(PlainText(*look, request, screen.Size().rows).c_str(), stdout);
      }
      return kExitOk;
    }
    if (!top.Wait(kLookEvery)) {
      screen.Give();
      return kExitOk;
    }
  }
}

}  // namespace ddprun

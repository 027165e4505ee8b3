#include "launcher/end/output_flush.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/exit_code.h"
#include "common/log.h"

namespace ddprun {
namespace {

constexpr Duration kTellAfter{2'000};
constexpr Duration kLongestLook{50};
constexpr Duration kStoppedPatience{2'000};

}  // namespace

std::optional<Duration> OutputFlushTimeout(int exit_code, bool stopped) {
  const bool on_request = stopped || exit_code == kExitRestart ||
                          exit_code == kExitSignalBase + SIGINT ||
                          exit_code == kExitSignalBase + SIGTERM;
  return on_request ? std::optional(kStoppedPatience) : std::nullopt;
}

void OutputFlush::Begin(std::optional<Duration> limit, std::function<std::string()> unread,
                        std::function<void()> done) {
  CHECK(!done_);
  unread_ = std::move(unread);
  began_ = loop_.Now();
  end_.reset();
  if (limit) {
    end_ = began_ + *limit;
  }
  done_ = std::move(done);
  Look();
}

bool OutputFlush::GiveUp() {
  if (!done_) {
    return false;
  }
  look_again_.Cancel();
  std::exchange(done_, nullptr)();
  return true;
}

// Soon at first: most are read within a moment.
void OutputFlush::Look() {
  const Time now = loop_.Now();
  const std::string unread = unread_();
  if (unread.empty() || (end_ && now >= *end_)) {
    GiveUp();
    return;
  }
  if (!end_ && !told_ && now >= began_ + kTellAfter) {
    told_ = true;
    Log(LogLevel::kWarning,
        "waiting for the reader of " + unread + "; press Ctrl-C to exit and drop the rest");
  }
  const auto waited = std::chrono::floor<Duration>(now - began_);
  look_again_.ArmAt(now + std::clamp(waited, Duration{1}, kLongestLook), [this] { Look(); });
}

}  // namespace ddprun

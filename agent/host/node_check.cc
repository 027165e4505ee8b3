#include "agent/host/node_check.h"

#include <sys/prctl.h>

#include <utility>
#include <vector>

#include "agent/workers/process_tree.h"
#include "common/log.h"
#include "common/text.h"

namespace ddprun {
namespace {

constexpr Duration kLaunchAndDeath{2'000};  // Beside its limit, until it counts as not to be ended.
constexpr Duration kSweepLimit{1'000};
constexpr Duration kSweepAgain{5};
constexpr std::size_t kMostLinesShown = 20;
constexpr const char* kOutlives = "it has not ended after SIGKILL (a disk or a device that hangs?)";

// On a thread, with which the command would die. It may stay here for ever.
CheckOutcome RunCommand(const WorkerSpec& spec, Duration limit, ChildRun& child) {
  CheckOutcome outcome;
  const auto status = child.Run(spec, {.limit = limit,
                                       .both = true,
                                       .spares_trackers = true,
                                       .output = [&](int, std::string_view bytes) {
                                         AppendCheckOutput(outcome.output, bytes);
                                         return true;
                                       }});
  outcome.error = status ? "" : status.error().message;
  outcome.status = status ? *status : std::nullopt;
  return outcome;
}

void ShowOutput(const std::string& output, LogLevel level) {
  const std::vector<std::string> all = Split(output, '\n');
  const std::size_t first = all.size() > kMostLinesShown ? all.size() - kMostLinesShown : 0;
  for (std::size_t i = first; i < all.size(); ++i) {
    Log(level, "node check | " + Printable(all[i]));
  }
}

}  // namespace

NodeCheck::NodeCheck(Loop& loop, std::string command, Duration limit)
    : loop_(loop), command_(std::move(command)), limit_(limit), sweep_(loop) {}

NodeCheck::~NodeCheck() {
  Stop();
}

void NodeCheck::Run(const std::string& cause, std::function<void(std::string)> verdict) {
  Stop();
  verdict_ = std::move(verdict);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // Processes that it leaves become this process's children.
                                       // Set again for workers.
  WorkerSpec spec;
  spec.command.file = "/bin/sh";
  spec.command.argv = {"sh", "-c", command_};
  spec.environment = ProcessEnvironment();
  spec.environment["DDPRUN_CHECK_CAUSE"] = cause;
  child_ = std::make_shared<ChildRun>();
  const auto outcome = std::make_shared<CheckOutcome>();
  loop_.RunBounded(
      limit_ + kLaunchAndDeath,
      [spec, outcome, limit = limit_, child = child_] {
        *outcome = RunCommand(spec, limit, *child);
      },
      life_.Guard([this, outcome, child = child_](bool in_time) {
        if (verdict_ && child == child_) {
          OnEnded(in_time ? outcome.get() : nullptr);
        }
      }));
}

void NodeCheck::Stop() {
  verdict_ = nullptr;
  sweep_.Cancel();
  if (child_) {
    child_->GiveUp();
  }
}

void NodeCheck::End(std::function<void()> done) {
  if (!verdict_) {
    return done();
  }
  verdict_ = [done = std::move(done)](const std::string&) { done(); };
  child_->GiveUp();
}

void NodeCheck::OnEnded(const CheckOutcome* outcome) {
  if (outcome == nullptr) {
    child_->GiveUp();  // A start that hung before the command began must not start it later.
    Tell(kOutlives);
    return;
  }
  const std::string unfit = VerdictOf(*outcome, limit_);
  if (!unfit.empty()) {
    ShowOutput(outcome->output, unfit == last_ ? LogLevel::kDebug : LogLevel::kInfo);
  }
  SweepThenTell(unfit, loop_.Now() + kSweepLimit);
}

// No worker is here, so all that is not ddprun's own is what the check has left.
void NodeCheck::SweepThenTell(const std::string& unfit, Time until) {
  if (SweepChildren({}, Reach::kWhatWorkersLeave).empty()) {
    Tell(unfit);
  } else if (loop_.Now() >= until) {
    Tell(kOutlives);
  } else {
    sweep_.ArmAt(loop_.Now() + kSweepAgain, [this, unfit, until] { SweepThenTell(unfit, until); });
  }
}

void NodeCheck::Tell(const std::string& unfit) {
  last_ = unfit;
  std::exchange(verdict_, nullptr)(unfit);
}

}  // namespace ddprun

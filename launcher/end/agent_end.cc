#include "launcher/end/agent_end.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/exit_code.h"
#include "common/log.h"
#include "launcher/end/run_failure.h"
#include "launcher/end/termination_log.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

constexpr Duration kReportFlushLimit{500};  // The report stands below what the workers printed.

constexpr Duration kHandOverLimit{5'000};  // Of a pod's grace; then they must find each other.
constexpr Duration kHandOverLook{20};

bool IsAtWork(const RunStatus& run) {
  return run.waits_for.empty() &&
         std::all_of(run.nodes.begin(), run.nodes.end(), [](const NodeStatus& node) {
           return !node.in_world || node.state == "running" || node.state == "finished";
         });
}

}  // namespace

void AgentEnd::Begin(const Exit& exit) {
  exit_ = exit;
  const bool in_place = exit.finish && exit.finish->ending == Ending::kFailed;
  end_.Begin(exit.code, in_place ? kReportFlushLimit : Duration{0});
}

LaunchEnd::Steps AgentEnd::Steps() {
  return {[this] { return parts_.agent.workers.consoles().Unread(); },
          // For people, and in a pod for those that ask what became of it.
          [this](const std::function<void()>& done) {
            parts_.agent.workers.WhenEvidenceIsKept([this, done] { Tell(done); });
          },
          [this](std::function<void()> done) { return ServeOn(std::move(done)); },
          [this] {
            const std::string unread = parts_.agent.workers.consoles().Unread();
            return unread.empty() && !FlushLog(Duration{0}) ? "standard error" : unread;
          },
          [this] { parts_.loop.Stop(); }};
}

void AgentEnd::Tell(const std::function<void()>& done) {
  const std::string last_words = SayHowItEnded(exit_);
  WarnOfUncaughtSignal(exit_, parts_.agent.driver.last_attempt());
  auto told = [this, last_words, all_told = done] {
    auto done = [this, all_told] { parts_.agent.FinishRequests(all_told); };
    const auto write = TerminationLogWriter(last_words, GetProcessEnv);
    if (!write) {
      done();
      return;
    }
    parts_.loop.RunBounded(kTerminationLogLimit, write, [done](bool in_time) {
      if (!in_time) {
        SayTerminationLogHangs();
      }
      done();
    });
  };
  if (exit_.finish && exit_.finish->ending == Ending::kFailed && exit_.finish->root &&
      exit_.code != kExitRestart) {
    parts_.guard.SayUsed();  // Also of what could not be started.
    ReportFailure(parts_.loop, exit_, parts_.config, parts_.agent.driver.last_attempt(),
                  parts_.directory, std::move(told));
  } else {
    told();
  }
}

// The scheduler that takes it away waits for this process, and kills it in the end; if the claim is
// given up first, another node has it at once.
bool AgentEnd::IsTakenAway() const {
  return parts_.role.failover && parts_.config.context.ends_nodes_alone && exit_.finish &&
         exit_.finish->ending == Ending::kLeft;
}

// The others work on while the server moves, but a world that is being formed would wait for it.
void AgentEnd::HandOver(Time limit, std::function<void()> done) {
  CoordinatorDriver* const serving = parts_.role.Serving();
  if (serving == nullptr) {
    return;  // It went, and this launch with it.
  }
  const auto run = serving->StatusOfRun(parts_.config.run_id);
  if (parts_.loop.Now() < limit && serving->NodesServed() > 0 && run && !IsAtWork(*run)) {
    hand_over_.ArmAt(parts_.loop.Now() + kHandOverLook,
                     [this, limit, done = std::move(done)] { HandOver(limit, done); });
    return;
  }
  Log(LogLevel::kInfo, "this node has finished; another node hosts the rendezvous now");
  done();
}

bool AgentEnd::ServeOn(std::function<void()> done) {
  CoordinatorDriver* const serving = parts_.role.Serving();
  CoordinatorDriver* const own = parts_.role.coordinator.get();
  if (serving == nullptr && own != nullptr && own->NodesServed() == 0) {
    own->WhenUnneeded(std::move(done));  // A reader may still follow the output.
    return true;
  }
  // A node that gives up has reached no server, so its own server has no nodes either.
  const bool gives_up = exit_.code == kExitUnavailable && !exit_.finish;
  if (serving == nullptr || gives_up) {
    return false;
  }
  if (IsTakenAway()) {
    HandOver(parts_.loop.Now() + kHandOverLimit, std::move(done));
    return true;
  }
  if (const std::size_t nodes = serving->NodesServed(); nodes > 0) {
    // At the run's end the others only have to hear of it; else they train on.
    const bool leaves = exit_.finish && (exit_.finish->ending == Ending::kLeft ||
                                         exit_.finish->ending == Ending::kRefused);
    const bool over = !leaves;
    Log(over ? LogLevel::kDebug : LogLevel::kInfo,
        "this node has finished, but still hosts the rendezvous for " +
            CountOf(static_cast<std::uint32_t>(nodes), "other node") + " (a signal ends it)");
  } else if (const Duration stays = serving->StaysFor(); stays > Duration{0}) {
    Log(LogLevel::kInfo, "this node has finished, but hosts the rendezvous for another " +
                             FormatDuration(stays) +
                             ", so that nodes that have not found it yet learn how the run ended");
  }
  serving->WhenUnneeded(std::move(done));
  return true;
}

}  // namespace ddprun

#include "launcher/hosts/launch_on_hosts.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/guard.h"
#include "agent/last_sweep.h"
#include "agent/workers/merged_console.h"
#include "agent/workers/worker_output.h"
#include "common/asio_loop.h"
#include "common/exit_code.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/end/output_flush.h"
#include "launcher/hosts/host_link.h"
#include "launcher/hosts/host_orders.h"
#include "launcher/hosts/hosts_core.h"
#include "launcher/print_out.h"
#include "launcher/server/descriptors.h"
#include "launcher/startup_messages.h"

namespace ddprun {
namespace {

constexpr Duration kLauncherSweepLimit{5'000};
constexpr Duration kLastLinesLimit{1'000};
constexpr Duration kLinksLimit{4'000};  // For hosts that were dropped, to end what they have.
constexpr Duration kLookAtLinks{10};

HostsConfig ConfigOf(const LaunchConfig& launch, const HostOrders& orders) {
  HostsConfig config;
  for (const LaunchHost& host : launch.hosts) {
    config.names.push_back(host.name);
  }
  for (const HostCopy& copy : orders.copies()) {
    config.copies.push_back(Describe(copy));
  }
  config.min_nodes = launch.spec.min_nodes;
  config.finds_first = orders.finds_first();
  config.first_ends_run = orders.finds_first() && launch.run_dir.empty();
  config.stop_limit = launch.spec.shutdown_timeout + 2 * HostsConfig::kEndGrace;
  return config;
}

// Warnings and errors of ddprun that several hosts give at the same moment are one line.
LineMerger::Plan MergingOf(const HostsConfig& config) {
  constexpr Duration kPatience{500};
  constexpr std::size_t kMostNames = 4;
  return {.patience = kPatience,
          .merges =
              [](std::string_view line) {
                return line.starts_with("ddprun | warning: ") ||
                       line.starts_with("ddprun | error: ") ||
                       line.starts_with("ddprun: error: ");  // Of one that did not begin.
              },
          .names =
              [&config](const std::set<std::uint32_t>& hosts) {
                std::vector<std::string> names;
                for (const std::uint32_t host : hosts) {
                  names.push_back(config.names[host]);
                }
                return names.size() > kMostNames ? std::to_string(names.size()) + " hosts"
                                                 : Joined(names, " ");
              }};
}

// Feeds the core and carries its effects out.
class HostsDriver {
 public:
  HostsDriver(const LaunchConfig& launch, const HostOrders& orders, GuardLink guard)
      : orders_(orders),
        config_(ConfigOf(launch, orders)),
        guard_(std::move(guard)),
        consoles_(loop_),
        errors_(loop_, consoles_.err, MergingOf(config_)),
        links_(launch.hosts.size()),
        wake_(loop_),
        alive_(loop_),
        end_(loop_),
        readers_(loop_) {}

  int Run() {
    const auto hosts = static_cast<std::uint32_t>(config_.names.size());
    errors_.Expect(hosts, hosts);
    guard_.Watch(
        loop_, [this](int signal) { OnSignal(signal); },
        [] {
          KillAllDescendants(kLauncherSweepLimit);
          ::_exit(kExitSignalBase + SIGKILL);
        });
    Feed(LaunchBegins{});
    SayStillThere();
    loop_.Run();
    return exit_code_;
  }

 private:
  void OnSignal(int signal) {
    if (signal == SIGWINCH) {
      return;
    }
    if (state_.over) {
      readers_.GiveUp();
    } else {
      Feed(LaunchSignal{signal, AsksForTheEnd(signal)});
    }
  }

  void Feed(const HostsEvent& event) {
    loop_.CheckOnLoop();
    const HostsEffects effects = Step(state_, config_, event, loop_.Now());
    for (const auto& [level, text] : effects.lines) {
      Log(level, text);
    }
    for (const std::size_t host : effects.dropped) {
      links_[host]->Drop();
    }
    for (const std::size_t host : effects.started) {
      Start(host);
    }
    for (const auto& [host, file] : effects.sent) {
      links_[host]->Send(orders_.copies()[file].bytes);
    }
    for (const std::size_t host : effects.ordered) {
      links_[host]->Send(Encode(orders_.Order(host, state_.first)));
    }
    for (const auto& [host, signal] : effects.signals) {
      const char number = static_cast<char>(signal);
      links_[host]->Send({&number, 1});
    }
    if (effects.leaves_output) {
      LeaveOutput();
    }
    if (effects.exit_code) {
      exit_code_ = *effects.exit_code;
      End(loop_.Now() + kLinksLimit);
    }
    wake_.ArmAt(NextWake(state_), [this] {
      HostsTick tick{.output_comes = Heard()};
      for (const OutputSink* const sink : {&consoles_.out, &consoles_.err}) {
        tick.output_waits |= !sink->HasRoom();
        tick.output_stands |= HoldsHostsUp(*sink);
      }
      Feed(tick);
    });
    Heard();
  }

  // Whether a host has printed something since this was last asked.
  bool Heard() {
    return std::ranges::count_if(links_, [](const auto& link) { return link && link->Heard(); }) >
           0;
  }

  // The hosts' output is not read meanwhile.
  static bool HoldsHostsUp(const OutputSink& sink) {
    return !sink.HasRoom() && sink.StandsFor(HostsConfig::kReaderLimit);
  }

  void LeaveOutput() {
    for (OutputSink* const sink : {&consoles_.out, &consoles_.err}) {
      if (HoldsHostsUp(*sink)) {
        Log(LogLevel::kWarning, "dropping the rest of the hosts' output: the reader of " +
                                    sink->name() + " does not read");
        sink->Leave();
      }
    }
  }

  void Start(std::size_t host) {
    links_[host] = std::make_shared<HostLink>(loop_, host, config_.names[host], orders_.word(),
                                              [this](const HostsEvent& event) { Feed(event); });
    links_[host]->Start(orders_.Connection(host), consoles_, errors_);
  }

  void SayStillThere() {
    for (const auto& link : links_) {
      if (link) {
        link->SayStillThere();
      }
    }
    alive_.ArmAt(loop_.Now() + kStillTherePeriod, [this] { SayStillThere(); });
  }

  // The last words of each host are read; then they are written.
  void End(Time limit) {
    const bool connected =
        std::ranges::any_of(links_, [](const auto& link) { return link && link->runs(); });
    if (connected && loop_.Now() < limit) {
      end_.ArmAt(loop_.Now() + kLookAtLinks, [this, limit] { End(limit); });
      return;
    }
    errors_.Finish();
    readers_.Begin(
        OutputFlushTimeout(exit_code_, state_.stop_signal.has_value()),
        [this] { return consoles_.Unread(); }, [this] { loop_.Stop(); });
  }

  AsioLoop loop_;
  const HostOrders& orders_;
  const HostsConfig config_;
  GuardLink guard_;
  Consoles consoles_;
  MergedConsole errors_;
  HostsState state_;
  std::vector<std::shared_ptr<HostLink>> links_;
  LoopTimer wake_;
  LoopTimer alive_;
  LoopTimer end_;
  OutputFlush readers_;
  int exit_code_ = 0;
};

}  // namespace

int LaunchOnHosts(const LaunchConfig& config) {
  const Result<HostOrders> orders = HostOrders::Make(config);
  const Result<void> enough = orders ? HaveDescriptors() : Result<void>();
  if (!orders || !enough) {
    Announce(LogLevel::kError, orders ? enough.error().message : orders.error().message);
    return orders ? kExitInternal : kExitUsage;
  }
  if (config.dry_run) {
    return PrintOut(orders->Describe());
  }
  return RunGuarded([&](GuardLink guard) {
    StartLauncherLog(config);
    const int code = HostsDriver(config, *orders, std::move(guard)).Run();
    FlushLog(kLastLinesLimit);
    return code;
  });
}

}  // namespace ddprun

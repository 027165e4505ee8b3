#include "launcher/hosts/launch_on_hosts.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "agent/guard.h"
#include "agent/last_sweep.h"
#include "agent/workers/output_sink.h"
#include "common/asio_loop.h"
#include "common/exit_code.h"
#include "common/exit_status.h"
#include "common/log.h"
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

UniqueFd Duplicate(int fd) {
  return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

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

// Feeds the core and carries its effects out.
class HostsDriver {
 public:
  HostsDriver(const LaunchConfig& launch, const HostOrders& orders, GuardLink guard)
      : orders_(orders),
        config_(ConfigOf(launch, orders)),
        guard_(std::move(guard)),
        out_(loop_, Duplicate(STDOUT_FILENO), "standard output"),
        err_(loop_, Duplicate(STDERR_FILENO), "standard error"),
        links_(launch.hosts.size()),
        wake_(loop_),
        alive_(loop_),
        end_(loop_),
        readers_(loop_) {}

  int Run() {
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
    if (effects.exit_code) {
      exit_code_ = *effects.exit_code;
      End(loop_.Now() + kLinksLimit);
    }
    wake_.ArmAt(NextWake(state_), [this] { Feed(HostsTick{!out_.HasRoom() || !err_.HasRoom()}); });
  }

  void Start(std::size_t host) {
    links_[host] =
        std::make_shared<HostLink>(loop_, config_.names[host], orders_.word(),
                                   HostLink::Told{[this, host](std::size_t file) {
                                                    Feed(HostLacks{host, file});
                                                  },
                                                  [this, host] { Feed(HostGreets{host}); },
                                                  [this, host](int code, bool run_ended) {
                                                    Feed(HostEnds{host, code, run_ended});
                                                  },
                                                  [this, host](const std::string& why) {
                                                    Feed(HostGone{host, why});
                                                  }});
    links_[host]->Start(orders_.Connection(host), {&out_, &err_, &open_line_});
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
    readers_.Begin(
        OutputFlushTimeout(exit_code_, state_.stop_signal.has_value()),
        [this]() -> std::string {
          return !out_.Idle() ? out_.name() : !err_.Idle() ? err_.name() : "";
        },
        [this] { loop_.Stop(); });
  }

  AsioLoop loop_;
  const HostOrders& orders_;
  const HostsConfig config_;
  GuardLink guard_;
  OutputSink out_;
  OutputSink err_;
  OpenLine open_line_;
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

// Faults of machines, links, disks and workers, for how long, and how each is mended.
#pragma once

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/exit_code.h"
#include "tests/sim/machine.h"
#include "tests/sim/simulation.h"
#include "tests/sim/training.h"

namespace ddprun::sim {

class Faults {
 public:
  Faults(Simulation& simulation, Random& random) : simulation_(simulation), random_(random) {}

  // Begins now: any that this run may have.
  void Any(bool calm) {
    const bool standing = simulation_.setup.standing;
    const std::uint64_t span = random_.Below(4);
    const Duration length = span == 0               ? random_.Between(50ms, 2s)
                            : span == 1             ? random_.Between(50ms, 500ms)
                            : span == 2 || standing ? random_.Between(2s, 15s)
                                                    : random_.Between(15s, 45s);
    if (calm) {
      if (random_.Chance(0.2)) {
        End(Serving(), length);
      } else {
        Worker(AnyNode(), length);
      }
      return;
    }
    Machine& machine = random_.Chance(standing ? 0.25 : 0.4) ? Serving() : AnyNode();
    static constexpr Kind kKinds[] = {
        {6, 4, &Faults::End},          {3, 2, &Faults::Standstill}, {4, 2, &Faults::Link},
        {2, 4, &Faults::Partition},    {0, 2, &Faults::Disk},       {2, 0, &Faults::Flapping},
        {1, 0, &Faults::ProxyRestart}, {7, 2, &Faults::Worker},
    };
    Begin(kKinds, machine, length);
  }
  // One of the kinds that only histories from kMoreFaults on have.
  void More() {
    Machine& machine = random_.Chance(0.5) ? Serving() : AnyNode();
    const Duration most{random_.Chance(0.5) ? 5'000 : 45'000};
    static constexpr Kind kMoreKinds[] = {
        {0, 4, &Faults::DiskErrors},
        {1, 3, &Faults::Suspend},
        {0, 1, &Faults::Names},
        {1, 1, &Faults::LastWord},
    };
    Begin(kMoreKinds, machine, random_.Between(50ms, most));
  }

  void End(Machine& machine, Duration length) {
    const bool noticed = random_.Chance(0.6);
    if (random_.Chance(0.5)) {
      machine.Crash(noticed);
    } else {
      machine.PowerOff(noticed);
      if (simulation_.training) {
        simulation_.training->OnPowerCut(machine.index());
      }
    }
    // Their server goes too: what it was asked is lost.
    const bool names = !simulation_.setup.standing && random_.Chance(0.2);
    simulation_.names = simulation_.names && !names;
    const bool loses_state = random_.Chance(0.15);
    After(length, [this, &machine, names, loses_state] {
      if (loses_state) {
        machine.server().LoseState();
      }
      machine.Start();
      simulation_.names = simulation_.names || names;
    });
  }
  void Standstill(Machine& machine, Duration length) {
    if (random_.Chance(0.5)) {
      machine.Freeze();
    } else {
      machine.Pause();
    }
    After(length, [&machine] { machine.Resume(); });
  }
  void Link(Machine& machine, Duration length) {
    const std::uint64_t what = random_.Below(4);
    if (what < 2) {
      machine.SetLink(false, random_.Chance(0.5));
      After(length, [&machine] { machine.SetLink(true, false); });
    } else {
      machine.SetWays(what == 2, what == 3);
      After(length, [&machine] { machine.SetWays(true, true); });
    }
    if (!simulation_.setup.standing && random_.Chance(0.2)) {  // The disk is behind that link.
      Disk(machine, length);
    }
  }
  // Into two parts, wholly or one way; or only between some of them.
  void Partition(Machine& /*machine*/, Duration length) {
    const std::uint64_t side = random_.Next();
    const bool both = random_.Chance(0.6);
    const double share = random_.Chance(0.6) ? 1 : 0.5;
    const auto machines = static_cast<std::uint32_t>(simulation_.machines.size());
    std::vector<std::pair<std::uint32_t, std::uint32_t>> made;
    for (std::uint32_t a = 0; a < machines; ++a) {
      for (std::uint32_t b = 0; b < machines; ++b) {
        const bool apart = (side >> a & 1) == 1 && (side >> b & 1) == 0;
        if (apart && random_.Chance(share)) {
          made.emplace_back(a, b);
          if (both) {
            made.emplace_back(b, a);
          }
        }
      }
    }
    std::string text = "(cut:";
    for (const auto& [a, b] : made) {
      text += Words(" n", a, ">n", b);
      simulation_.cuts.emplace(a, b);
    }
    simulation_.Tell("world", text, ")");
    After(length, [this, made] {
      for (const auto& cut : made) {
        simulation_.cuts.erase(cut);
      }
      simulation_.Tell("world", "(that cut is mended)");
    });
  }
  // Of claims or checkpoints.
  void Disk(Machine& machine, Duration length) {
    const bool claims = !simulation_.training || random_.Chance(0.6);
    if (claims) {
      machine.Tell("(the run directory hangs)");
      machine.SetDirectory(false);
      After(length, [&machine] { machine.SetDirectory(true); });
    }
    if (simulation_.training && (!claims || random_.Chance(0.3))) {
      machine.Tell("(the checkpoints hang)");
      machine.checkpoints.answers = false;
      After(length, [&machine] { machine.checkpoints.answers = true; });
    }
  }
  // It comes and dies again and again.
  void Flapping(Machine& machine, Duration length) {
    Duration when{0};
    for (std::uint64_t i = random_.Between(2, 6); i > 0; --i) {
      After(when, [&machine] { machine.Start(); });
      when += random_.Between(50ms, 1'500ms);
      After(when, [&machine, noticed = random_.Chance(0.8)] { machine.PowerOff(noticed); });
      when += random_.Between(50ms, 1'500ms);
    }
    After(when + length, [&machine] { machine.Start(); });
  }
  // All connections close at once.
  void ProxyRestart(Machine& /*machine*/, Duration length) {
    for (const auto& machine : simulation_.machines) {
      machine->SetLink(false, true);
      After(length, [&machine = *machine] { machine.SetLink(true, false); });
    }
  }
  void Worker(Machine& machine, Duration length) {
    const std::uint64_t n = random_.Below(8);
    const auto ends = [&](ExitStatus status) { machine.workers().EndAWorker(n, status); };
    const bool any = simulation_.setup.standing;
    switch (random_.Below(8)) {
      case 0:
        machine.Signal(SIGTERM);
        break;
      case 1:
      case 2:
        ends(Exited{1});
        break;
      case 3:
        any ? ends(Exited{0}) : ends(Killed{SIGKILL});
        break;
      case 4:
        any ? machine.Signal(random_.Chance(0.3) ? SIGINT : SIGUSR1) : ends(Killed{SIGKILL});
        break;
      case 5:
        if (any) {
          machine.Signal(SIGTERM);
          After(length, [&machine] { machine.Signal(SIGTERM); });
          break;
        }
        [[fallthrough]];
      default:
        ends(Killed{SIGKILL});
        break;
    }
  }
  // Of claims and checkpoints: nothing hangs, but what is asked of them fails.
  void DiskErrors(Machine& machine, Duration length) {
    const int error = std::array{EIO, ENOSPC, EACCES}[random_.Below(3)];
    const bool claims = !simulation_.training || random_.Chance(0.7);
    machine.Tell("(its disks say: ", std::strerror(error), ")");
    if (claims) {
      machine.directory.error = error;
    }
    if (simulation_.training && (!claims || random_.Chance(0.5))) {
      machine.checkpoints.error = error;
    }
    After(length, [&machine] { machine.directory.error = machine.checkpoints.error = 0; });
  }
  // Its clock stands too.
  void Suspend(Machine& machine, Duration length) {
    machine.Suspend();
    After(length, [&machine] { machine.Resume(); });
  }
  void Names(Machine& /*machine*/, Duration length) {
    simulation_.Tell("world", "(no name has an address)");
    simulation_.names_fail = true;
    After(length, [this] { simulation_.names_fail = false; });
  }
  // Of a worker: it is not to be started again.
  void LastWord(Machine& machine, Duration /*length*/) {
    machine.workers().EndAWorker(random_.Below(8), Exited{kExitDoNotRestart});
  }

 private:
  // How often each comes where the server stands, and where its part moves.
  struct Kind {
    std::uint64_t standing;
    std::uint64_t moving;
    void (Faults::*begin)(Machine& machine, Duration length);
  };
  void Begin(std::span<const Kind> kinds, Machine& machine, Duration length) {
    const bool standing = simulation_.setup.standing;
    std::uint64_t weight = 0;
    for (const Kind& kind : kinds) {
      weight += standing ? kind.standing : kind.moving;
    }
    std::uint64_t drawn = random_.Below(weight);
    for (const Kind& kind : kinds) {
      const std::uint64_t own = standing ? kind.standing : kind.moving;
      if (drawn < own) {
        (this->*kind.begin)(machine, length);
        return;
      }
      drawn -= own;
    }
  }
  Machine& AnyNode() {
    const std::uint64_t nodes = simulation_.machines.size() - (simulation_.setup.standing ? 1 : 0);
    return *simulation_.machines[random_.Below(nodes)];
  }
  // The server of now, or else any.
  Machine& Serving() {
    for (const auto& machine : simulation_.machines) {
      if (machine->serves()) {
        return *machine;
      }
    }
    return simulation_.setup.standing ? *simulation_.machines.back() : AnyNode();
  }
  void After(Duration delay, std::function<void()> what) {
    simulation_.event_queue.After(delay, std::move(what));
  }

  Simulation& simulation_;
  Random& random_;
};

}  // namespace ddprun::sim

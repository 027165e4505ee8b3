#include "tests/sim/plan.h"

#include <algorithm>

#include "rendezvous/core/status.h"
#include "tests/sim/faults.h"
#include "tests/sim/machine.h"
#include "tests/sim/setups.h"
#include "tests/sim/training.h"

namespace ddprun::sim {
namespace {

constexpr Duration kLook{50};
constexpr int kLooksTogether = 3;        // Waking, a process has a moment to find out.
constexpr int kLooksTogetherStale = 40;  // A node that read an old state is found out by its rival.
constexpr Duration kLiveness{300'000};   // From healing to the end of every agent.
constexpr Duration kLongForgotten{60'000};  // Twenty long leases after its end.
constexpr Duration kSettling{30'000};
constexpr double kUnfit = 0.3;
constexpr int kSettlingLooks = 75;  // A node that has heard no server since gives up after 90 s.

// Checks came after the seeds that are kept (full_seeds.txt, rules.txt), which are none of these.
bool MayHaveChecks(std::uint64_t seed) {
  const std::uint64_t kind = seed % 8;
  return kind == 1 || kind == 4;
}

class Plan {
 public:
  Plan(std::uint64_t seed, Mode mode, bool words)
      : seed_(seed),
        random_(seed % kMoreFaults),
        more_random_(seed),
        mode_(mode),
        calm_(seed % 8 == 0),
        more_(seed >= kMoreFaults && !calm_ && mode != Mode::kSlow),
        checks_(more_ && MayHaveChecks(seed)),
        simulation_(SetupOf(mode), random_.Next(), words),
        faults_(simulation_, random_),
        more_faults_(simulation_, more_random_),
        event_queue_(simulation_.event_queue),
        laws_(simulation_.laws),
        setup_(simulation_.setup),
        machines_(simulation_.machines) {
    if (!setup_.standing) {
      laws_.AllowSplits();
      Watch();
    }
  }

  History Play() {
    if (mode_ != Mode::kFailover) {
      PlayRun();
    } else {
      PlayFailover();
    }
    return {laws_.broken(), simulation_.transcript.hash(), simulation_.transcript.lines(),
            laws_.lost};
  }

 private:
  // ---- What goes wrong ----
  Setup SetupOf(Mode mode) {
    Setup setup = RandomSetup(random_, mode, calm_);
    if (more_) {
      DrawMore(more_random_, mode, setup);
    }
    if (checks_) {
      setup.checks = seed_;
      setup.conduct.unfit = kUnfit;
    }
    return setup;
  }
  void PlanMore(Duration until) {
    for (std::uint64_t i = more_ ? more_random_.Between(1, 5) : 0; i > 0; --i) {
      event_queue_.After(more_random_.Between(1s, until), [this] { more_faults_.More(); });
    }
  }
  void StartMachines(Duration until) {
    for (const auto& machine : machines_) {
      const bool soon = machine->bare() || calm_ || random_.Chance(0.6);
      event_queue_.After(random_.Between(0ms, soon ? 500ms : until * 2 / 3),
                         [&machine = *machine] { machine.Start(); });
    }
    if (setup_.standing && random_.Chance(0.3)) {  // All at once, and some of them late.
      const Duration burst = random_.Between(0ms, until * 2 / 3);
      for (std::size_t i = machines_.size() / 2; i + 1 < machines_.size(); ++i) {
        event_queue_.After(burst, [&machine = *machines_[i]] { machine.Start(); });
      }
    }
  }
  void PlanFaults(Duration until) {
    for (std::uint64_t i = random_.Between(setup_.standing ? 0 : 1, 12); i > 0; --i) {
      event_queue_.After(random_.Between(1s, until), [this] { faults_.Any(calm_); });
    }
  }
  // A server alone ends twice at most, far enough apart for each successor to be found.
  void PlanCalm() {
    Machine& alone = *machines_[0];
    Duration when = random_.Between(12s, 25s);
    for (std::uint64_t i = random_.Below(3); i > 0; --i) {
      const Duration down = random_.Between(20s, 40s);
      event_queue_.After(when, [this, &alone, down] { faults_.End(alone, down); });
      when += down + random_.Between(10s, 20s);
    }
  }
  // Of agents, while their workers continue: each shorter than a lease.
  void PlanPauses(Duration until) {
    for (std::uint64_t i = random_.Below(4); i > 0; --i) {
      Machine& machine = *machines_[random_.Below(machines_.size())];
      const Duration lasts = random_.Between(50ms, setup_.base_lease / 2);
      event_queue_.After(random_.Between(1s, until), [this, &machine, lasts] {
        machine.Pause();
        event_queue_.After(lasts, [&machine] { machine.Resume(); });
      });
    }
  }
  void PlayRun() {
    const Duration until = calm_ && !setup_.standing ? 150s : random_.Between(5s, 50s);
    if (!setup_.standing) {
      simulation_.training = std::make_unique<Training>(simulation_);
    }
    if (calm_ && !setup_.slow) {
      laws_.losses_forbidden = true;
    }
    StartMachines(until);
    if (setup_.slow) {
      PlanPauses(until);
    } else if (calm_ && !setup_.standing) {
      PlanCalm();
    } else {
      PlanFaults(until);
      PlanMore(until);
    }
    const Time heal = event_queue_.Now() + until;
    event_queue_.At(heal, [this] { simulation_.Heal(); });
    if (!setup_.standing) {
      event_queue_.At(heal + kSettling, [this] { LookForOneServer(kSettlingLooks); });
    }
    // A standing server continues until it has forgotten the run.
    const Time end = heal + kLiveness + 3 * setup_.spec.fence_after;
    while (!laws_.broken() && event_queue_.DoNext(end)) {
      if (!setup_.standing && event_queue_.Now() > heal && simulation_.Quiet()) {
        break;
      }
    }
    CheckEnd();
  }
  // Trouble for a minute, then none, then one server must be left. A quarter of them have blips
  // alone, which must change nothing; of the others a quarter reads what was long ago.
  void PlayFailover() {
    blips_only_ = random_.Chance(0.25);
    old_reads_ = !blips_only_ && random_.Chance(0.25);
    setup_.stale_claims = old_reads_ ? 0.3 : 0;
    StartMachines({});
    if (!blips_only_ && !old_reads_) {
      PlanMore(60s);
    }
    event_queue_.After(5s, [this] { TroubleSoon(event_queue_.Now() + 55s); });
    simulation_.RunUntil(event_queue_.Now() + 85s);
    laws_.BreakIf(blips_only_ && laws_.terms() != 1, "with blips alone ", laws_.terms(),
                  " servers serve");
    simulation_.Heal();
    simulation_.RunUntil(event_queue_.Now() + kSettling);
    const std::uint64_t terms = laws_.terms();
    laws_.BreakIf(!OneServer() ||
                      !std::ranges::all_of(machines_, [](const auto& one) { return one->alive(); }),
                  "long after healing there is not one server that all follow");
    simulation_.RunUntil(event_queue_.Now() + kSettling);
    laws_.BreakIf(laws_.terms() != terms, "the server changes though everything is well");
  }
  // Blips that follow each other closely are one that is longer.
  void TroubleSoon(Time end) {
    const Duration least = blips_only_ ? 9 * setup_.base_lease : setup_.long_lease;
    event_queue_.After(random_.Between(least, least + 6s), [this, end] {
      if (event_queue_.Now() < end) {
        TroubleSoon(end);
        Trouble();
      }
    });
  }
  void Trouble() {
    Machine& machine = *machines_[random_.Below(machines_.size())];
    // A holder counts from its last write's beginning, and that and the next one take their time.
    const Duration lasts = random_.Between(50ms, blips_only_ ? setup_.base_lease * 9 / 10 : 20s);
    const std::uint64_t kind = random_.Below(blips_only_ ? 3 : 4);
    if (kind == 0 && !old_reads_) {
      machine.SetLink(false, false);
      event_queue_.After(lasts, [&machine] { machine.SetLink(true, false); });
    } else if (kind == 1) {
      faults_.Disk(machine, lasts);
    } else if (kind == 2) {
      machine.Pause();
      machine.SetWays(true, !old_reads_);  // Nor does it find answers when it wakes.
      event_queue_.After(lasts, [&machine] {
        machine.SetWays(true, true);
        machine.Resume();
      });
    } else if (kind == 3 && !old_reads_) {
      machine.Crash(true);
      event_queue_.After(lasts, [&machine] { machine.Start(); });
    }
  }

  // ---- What must be true ----
  void Watch() {
    // Servers that serve and do not stand still.
    const auto active = std::ranges::count_if(machines_, [](const auto& one) {
      return one->serves() && !one->loop().paused() && !one->deluded();
    });
    overlaps_ = active > 1 ? overlaps_ + 1 : 0;
    const bool stale = mode_ == Mode::kFull && setup_.stale_claims > 0;
    laws_.BreakIf(overlaps_ >= (stale ? kLooksTogetherStale : kLooksTogether),
                  "two servers act side by side");
    event_queue_.After(kLook, [this] { Watch(); });
  }
  // All agents that live follow it.
  bool OneServer() const {
    const Server* only = nullptr;
    for (const auto& machine : machines_) {
      if (machine->serves()) {
        if (only != nullptr) {
          return false;
        }
        only = &machine->server();
      }
    }
    return std::ranges::all_of(machines_, [&](const auto& machine) {
      return !machine->alive() || (only != nullptr && machine->speaks_to() == only);
    });
  }
  void LookForOneServer(int looks_left) {
    settled_ = settled_ || OneServer();
    if (settled_) {
      return;
    }
    if (looks_left == 0) {
      laws_.Break("long after healing there is not one server that all follow");
      return;
    }
    event_queue_.After(1s, [this, looks_left] { LookForOneServer(looks_left - 1); });
  }
  // Without a server the workers of a broken world hang for as long as they like.
  void CheckEnd() {
    if (laws_.broken()) {
      return;
    }
    if (!simulation_.Quiet()) {
      BreakInWords("after healing the run did not end in time:");
    } else if (setup_.slow) {
      CheckSlowEnd();
    } else if (setup_.standing) {
      const Server& server = machines_.back()->server();
      const CoordinatorState& state = server.state();
      if (state.outcome && !IsOver(state)) {
        BreakInWords("the run has ended, but the server may never forget it:");
      } else if (state.outcome &&
                 machines_.back()->loop().Now() > *server.over_since() + kLongForgotten) {
        BreakInWords("the run has ended, but the server remembers it:");
      }
    }
  }
  // Nothing ends these runs but their work, or the rank that hangs.
  void CheckSlowEnd() {
    for (const auto& machine : machines_) {
      if (const std::optional<Exit>& exit = machine->exit()) {
        const std::string wrong = simulation_.last_workload()->WrongEnd(
            exit->finish ? exit->finish->root : std::nullopt, exit->code == 0);
        if (!wrong.empty() && !laws_.broken()) {
          laws_.Break(wrong);
        }
      }
    }
  }
  void BreakInWords(std::string text) {
    for (const auto& machine : machines_) {
      const Server& server = machine->server();
      if (server.up()) {
        const RunStatus status = StatusOf(server.state(), server.config(), machine->loop().Now());
        text += "\n    " + status.phase + ": " + status.waits_for;
        for (const NodeStatus& node : status.nodes) {
          text += "\n    node " + node.node + ": " + node.state;
        }
      }
    }
    laws_.Break(text);
  }

  const std::uint64_t seed_;
  Random random_;
  Random more_random_;
  const Mode mode_;
  const bool calm_;
  const bool more_;
  const bool checks_;
  bool blips_only_ = false;  // Nothing lasts as long as a lease.
  bool old_reads_ = false;   // And the network is well.
  int overlaps_ = 0;         // Looks in a row that found two servers.
  bool settled_ = false;
  Simulation simulation_;
  Faults faults_;
  Faults more_faults_;
  EventQueue& event_queue_;
  Laws& laws_;
  Setup& setup_;
  const std::vector<std::unique_ptr<Machine>>& machines_;
};

}  // namespace

History Play(std::uint64_t seed, Mode mode, bool words) {
  return Plan(seed, mode, words).Play();
}

}  // namespace ddprun::sim

// Messages of authenticated callers to the coordinator of a run, in any order, well formed and
// never true: a node that is in no world changes no directive of a world's nodes, one that is a
// member harms its own run alone, and no caller makes the server hold more than it may.
//
// Two runs are played with two honest nodes each, on one clock. The input is a list of steps: who
// speaks, what has happened to him, how much time goes by.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/status.h"
#include "rendezvous/core/testing/invariants.h"
#include "tests/fuzz/generated_reports.h"

namespace {

using namespace ddprun;

constexpr std::size_t kRunBytes = 60'000;
constexpr std::size_t kWorldsPart = 40'000;  // Its members, which are never forgotten.
constexpr Duration kLease{1'000};
constexpr Duration kBeat = kLease * 3 / 10;  // The beat that a node returns is one beat old.
constexpr int kMostSteps = 400;

Time At(Duration since_start) {
  return Time{std::chrono::seconds(1'000) + since_start};
}

struct PlayedRun {
  CoordinatorState state;
  CoordinatorConfig config;

  PlayedRun() {
    state.run_id = "run";
    config.term = {1};
    config.base_lease = kLease;
    config.run_bytes = kRunBytes;
  }
  void Feed(const CoordinatorEvent& event, Time now) {
    for (const RunEvent& said : Step(state, config, event, now).events) {
      CHECK(!said.text.empty());
    }
    CHECK(BytesOf(state) <= kRunBytes + kWorldsPart);
    const auto broken = BrokenInvariant(state, config, now);
    if (broken) {
      std::fprintf(stderr, "%s\n", broken->c_str());
    }
    CHECK(!broken);
  }
  Directive Told(const NodeReport& report, Time now) const {
    return DirectiveFor(state, config, report.node, report.incarnation, now);
  }
};

void Speak(HonestNode& node, PlayedRun& run, Time now) {
  run.Feed(Reported{node.report}, now);
  node.Hear(run.Told(node.report, now), run.config.term, now.time_since_epoch().count());
}

// A node that comes while a world runs that has no room is an outsider to it.
void PlayOutsiders(FuzzInput input) {
  const RunSpec spec{.min_nodes = 2, .max_nodes = 2, .max_restarts = 1};
  PlayedRun alone, visited;
  std::array honest{HonestNode("n0", spec), HonestNode("n1", spec)};
  auto same = honest;
  Time now = At(Duration{0});
  const auto beat = [&] {
    for (std::size_t i = 0; i < honest.size(); ++i) {
      Speak(honest[i], alone, now);
      Speak(same[i], visited, now);
      CHECK(SameDirective(*honest[i].report.echo, *same[i].report.echo));
      CHECK(honest[i].report.hosting == same[i].report.hosting);
    }
  };
  for (int i = 0; i < 3; ++i) {
    beat();
  }
  CHECK(alone.state.phase == Phase::kRunning && visited.state.phase == Phase::kRunning);
  const Duration lease = LeaseOf(alone.state, alone.config);
  std::map<NodeKey, std::uint64_t> sequences;
  for (int step = 0; step < kMostSteps && !input.Rest().empty(); ++step) {
    NodeReport report;
    MakeUpNode(input, spec, report);
    MakeUp(input, visited.state, report);
    report.sequence = ++sequences[{report.node, report.incarnation}];
    const std::uint64_t edition = visited.state.edition;
    visited.Feed(Reported{report}, now);
    CHECK(!Describe(visited.Told(report, now)).empty());
    CHECK(LeaseOf(visited.state, visited.config) == lease);
    CHECK(visited.state.phase == Phase::kRunning);
    CHECK(edition <= visited.state.edition);
    if (input.Byte() % 4 == 0) {
      visited.Feed(CallEnded{report.node, report.incarnation, report.sequence, true}, now);
    }
    if (input.Byte() % 4 == 0) {
      // A server that is awake does what is due when it is: a late tick would lengthen its lease.
      const Time next = now + kBeat;
      for (int i = 0; i < kMostSteps; ++i) {
        const std::optional<Time> wake = NextWake(visited.state, visited.config);
        if (!wake || *wake >= next) {
          break;
        }
        now = std::max(now, *wake);
        alone.Feed(Tick{}, now);
        visited.Feed(Tick{}, now);
      }
      now = next;
      alone.Feed(Tick{}, now);
      visited.Feed(Tick{}, now);
      beat();
    }
  }
  beat();
  CHECK(alone.state.world->id == visited.state.world->id);
  CHECK(alone.state.budget.used == visited.state.budget.used);
}

// From before the first world on, a liar is as welcome as any.
void PlayLiars(FuzzInput input) {
  const std::uint8_t kind = input.Byte();
  const RunSpec spec{.min_nodes = 1u + kind % 3,
                     .max_nodes = 3,
                     .max_restarts = kind / 4 % 4u,
                     .last_call = Duration{0},
                     .fence_after = Duration{kind % 2 == 0 ? 0 : 6'000}};
  PlayedRun run;
  run.config.claims = kind >= 128;
  std::array honest{HonestNode("n0", spec), HonestNode("n1", spec)};
  Time now = At(Duration{0});
  std::map<NodeKey, std::uint64_t> sequences;
  NodeReport report;
  MakeUpNode(input, spec, report);
  for (int step = 0; step < kMostSteps && !input.Rest().empty(); ++step) {
    const std::uint8_t what = input.Byte();
    if (what % 8 == 0) {
      MakeUpNode(input, spec, report);
    }
    if (what % 8 < 4) {
      MakeUp(input, run.state, report);
      report.sequence = ++sequences[{report.node, report.incarnation}];
      run.Feed(Reported{report}, now);
      const Directive told = run.Told(report, now);
      CHECK(!Describe(told).empty());
      if (what >= 128) {
        report.echo = told;
      }
    } else if (what % 8 == 4) {
      run.Feed(CallEnded{report.node, report.incarnation, report.sequence, what >= 128}, now);
    } else if (what % 8 == 5) {
      run.Feed(OutcomeKept{}, now);
    } else {
      now += kBeat;
      run.Feed(Tick{}, now);
      for (HonestNode& node : honest) {
        Speak(node, run, now);
      }
    }
    CHECK(NextWake(run.state, run.config) || IsOver(run.state) || run.state.nodes.empty());
    CHECK(!StatusOf(run.state, run.config, now).phase.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const std::size_t before = AllocatedBytes();
  input.Byte() % 2 == 0 ? PlayOutsiders(input) : PlayLiars(input);
  CHECK(AllocatedBytes() <= before + (1 << 20));  // Nothing stays.
  return 0;
}

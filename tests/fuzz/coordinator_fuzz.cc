// What somebody who is let in may say to the coordinator of a run, in whatever order, well formed
// and never true: a node that is in no world changes nothing of what a world's nodes are told, one
// that is a member harms its own run alone, and nobody makes the server hold more than it may.
//
// Two runs are played with two honest nodes each, on one clock. The input is a list of steps: who
// speaks, what has happened to him, how much time goes by.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "common/check.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/status.h"
#include "rendezvous/core/testing/invariants.h"
#include "rendezvous/messages/describe.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace ddprun;

constexpr std::size_t kRunBytes = 60'000;
constexpr std::size_t kWorldsPart = 40'000;  // Its members, whom nobody forgets.
constexpr Duration kBeat{500};
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
    config.run_bytes = kRunBytes;
  }
  void Feed(const CoordinatorEvent& event, Time now) {
    for (const Notice& notice : Step(state, config, event, now).notices) {
      CHECK(!notice.text.empty());
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

// Does what it is told; its workers never end by themselves.
struct HonestNode {
  NodeReport report;

  HonestNode(const std::string& name, const RunShape& shape) {
    report.node = report.host = name;
    report.incarnation = {1};
    report.shape = shape;
    report.store = {name, 1234};
  }
  void Speak(PlayedRun& run, Time now) {
    ++report.sequence;
    run.Feed(Reported{report}, now);
    const Directive told = run.Told(report, now);
    CHECK(!Describe(told).empty());
    report.term = run.config.term;
    report.beat = now.time_since_epoch().count();
    report.echo = told;
    if (const auto* const order = std::get_if<Run>(&told);
        order != nullptr && order->placement.generation > report.floor) {
      report.placement = order->placement;
      report.hosting = Hosting::kWorkers;
      report.outcome = Outcome::kNone;
    } else if (const auto* const stop = std::get_if<Stop>(&told)) {
      if (report.hosting != Hosting::kNothing) {
        report.outcome = Outcome::kStopped;
      }
      report.hosting = Hosting::kNothing;
      report.floor = std::max(report.floor, stop->generation);
      if (stop->cause == StopCause::kDeclaredLost) {
        report.incarnation.value += 2;
        report.sequence = 0;
        report.placement.reset();
        report.outcome = Outcome::kNone;
      }
    } else if (std::holds_alternative<Finish>(told)) {
      report.hosting = Hosting::kNothing;
    }
  }
};

template <class Value, std::size_t kSize>
Value OneOf(FuzzInput& input, const std::array<Value, kSize>& values) {
  return values[input.Byte() % kSize];
}

std::string SomeText(FuzzInput& input) {
  const std::size_t size = OneOf<std::size_t>(input, std::array<std::size_t, 4>{0, 3, 255, 4'096});
  return std::string(size, 'x');
}

WorkerFailure SomeFailure(FuzzInput& input) {
  WorkerFailure failure;
  failure.rank = input.Byte();
  const int number = input.Byte();
  failure.status = number % 2 == 0 ? ExitStatus(Exited{number}) : Killed{1 + number % 31};
  const std::uint8_t bits = input.Byte();
  failure.said_hello = (bits & 1) != 0;
  failure.stopped_by_us = (bits & 2) != 0;
  failure.recorded = (bits & 4) != 0;
  failure.after = Duration{100 * (bits >> 3)};
  failure.last_lines = SomeText(input);
  failure.details.traceback = SomeText(input);
  failure.hang = SomeText(input).substr(0, kMaxHangText);
  return failure;
}

// A liar has heard of the world, or has made it up.
Placement SomePlacement(FuzzInput& input, const CoordinatorState& state) {
  Placement placement;
  const bool heard = state.world && input.Byte() % 4 != 0;
  placement.term = heard ? state.world->term : Term{input.Byte()};
  placement.generation = {
      (heard ? state.world->generation.value : 0) +
      OneOf<std::uint64_t>(input, std::array<std::uint64_t, 4>{0, 0, 1, std::uint64_t{1} << 50})};
  placement.world_id = heard ? state.world->id : WorldId{input.Byte()};
  placement.group_size = 1 + input.Byte() % 8;
  placement.group_rank = input.Byte() % placement.group_size;
  placement.world_size = 1 + input.Byte();
  placement.first_rank = input.Byte() % placement.world_size;
  placement.store.host = SomeText(input).substr(0, 255);
  return placement;
}

// All that the border lets through (rendezvous/wire/convert_read.cc), but for its numbers' ends.
void MakeUp(FuzzInput& input, const CoordinatorState& state, NodeReport& report) {
  const std::uint8_t what = input.Byte();
  const auto says = [&](int bit) { return (what >> bit & 1) != 0; };
  report.hosting =
      OneOf(input, std::array{Hosting::kNothing, Hosting::kWorkers, Hosting::kStopping});
  report.placement.reset();
  if (says(0)) {
    report.placement = SomePlacement(input, state);
  }
  report.outcome = OneOf(input, std::array{Outcome::kNone, Outcome::kSucceeded, Outcome::kFailed,
                                           Outcome::kStopped, Outcome::kSpawnFailed});
  report.failures.clear();
  for (int i = says(1) ? input.Byte() % 9 : 0; i > 0; --i) {
    report.failures.push_back(SomeFailure(input));
  }
  report.spawn_failure = says(2) ? SomeText(input) : "";
  if (says(3)) {
    report.floor = {OneOf<std::uint64_t>(
        input, std::array<std::uint64_t, 4>{0, 1, state.newest.value, std::uint64_t{1} << 50})};
  }
  report.unkillable = says(4) ? input.Byte() : 0;
  report.hung_rank.reset();
  report.standings.clear();
  if (says(5)) {
    report.hung_rank = input.Byte();
    for (int i = input.Byte() % 5; i > 0; --i) {
      const std::uint8_t count = input.Byte();
      report.standings.push_back({input.Byte(), SomeText(input).substr(0, 255), input.Byte(), count,
                                  input.Byte() % (count + 1u), Duration{1'000}});
    }
    report.progress = std::uint64_t{1} << input.Byte() % 64;
    report.ended_well = static_cast<std::uint32_t>(report.progress % (report.workers + 1u));
  }
  report.leaving =
      says(6) ? OneOf(input, std::array{Leaving::kLeave, Leaving::kStopRun}) : Leaving::kNo;
  report.term = {input.Byte() % 3u};
  report.beat = OneOf<std::int64_t>(input, std::array<std::int64_t, 3>{0, 1, INT64_MAX / 1'000});
  report.restarts_used = input.Byte();
}

// As what the border lets through says of itself for ever.
void MakeUpNode(FuzzInput& input, const RunShape& shape, NodeReport& report) {
  const std::uint8_t who = input.Byte();
  report.node = who % 16 < 2 ? "n" + std::to_string(who % 16) : "x" + std::to_string(who);
  report.incarnation = {1'000u + input.Byte()};
  report.host = report.role = report.node + SomeText(input).substr(0, 200);
  report.shape = shape;
  if (input.Byte() % 8 == 0) {
    report.shape.max_nodes += 1 + input.Byte();
  }
  report.workers = 1 + input.Byte();
}

// Whoever comes while a world runs that has no room is a stranger to it.
void PlayStrangers(FuzzInput input) {
  const RunShape shape{.min_nodes = 2, .max_nodes = 2, .max_restarts = 1};
  PlayedRun alone, visited;
  std::array honest{HonestNode("n0", shape), HonestNode("n1", shape)};
  auto same = honest;
  Time now = At(Duration{0});
  const auto beat = [&] {
    for (std::size_t i = 0; i < honest.size(); ++i) {
      honest[i].Speak(alone, now);
      same[i].Speak(visited, now);
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
    MakeUpNode(input, shape, report);
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
      now += kBeat;
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
  const RunShape shape{.min_nodes = 1u + kind % 3,
                       .max_nodes = 3,
                       .max_restarts = kind / 4 % 4u,
                       .last_call = Duration{0},
                       .fence_after = Duration{kind % 2 == 0 ? 0 : 6'000}};
  PlayedRun run;
  run.config.journal = kind >= 128;
  std::array honest{HonestNode("n0", shape), HonestNode("n1", shape)};
  Time now = At(Duration{0});
  std::map<NodeKey, std::uint64_t> sequences;
  NodeReport report;
  MakeUpNode(input, shape, report);
  for (int step = 0; step < kMostSteps && !input.Rest().empty(); ++step) {
    const std::uint8_t what = input.Byte();
    if (what % 8 == 0) {
      MakeUpNode(input, shape, report);
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
      run.Feed(Persisted{run.state.records.asked}, now);
    } else {
      now += kBeat;
      run.Feed(Tick{}, now);
      for (HonestNode& node : honest) {
        node.Speak(run, now);
      }
    }
    CHECK(NextWake(run.state, run.config) || IsOver(run.state) || run.state.nodes.empty());
    CHECK(!Describe(run.state, run.config, now).empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const std::size_t before = AllocatedBytes();
  input.Byte() % 2 == 0 ? PlayStrangers(input) : PlayLiars(input);
  CHECK(AllocatedBytes() <= before + (1 << 20));  // Nothing stays.
  return 0;
}

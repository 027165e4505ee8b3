// The nodes that speak to a coordinator: one that follows its directive, and one that makes up all
// that the border lets through (rendezvous/wire/wire_messages.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "rendezvous/core/coordinator.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/describe_directive.h"

namespace ddprun {

// Follows its directive; its workers never end by themselves.
struct HonestNode {
  NodeReport report;

  HonestNode(const std::string& name, const RunSpec& spec) {
    report.node = report.host = name;
    report.incarnation = {1};
    report.spec = spec;
    report.store = {name, 1234};
    report.sequence = 1;
  }
  // One of its workers, and its next report says so. False: it has none.
  bool Fail() {
    if (report.hosting != Hosting::kWorkers) {
      return false;
    }
    ++report.sequence;
    report.hosting = Hosting::kNothing;
    report.outcome = Outcome::kFailed;
    report.failures = {{.rank = report.placement->first_rank, .status = Exited{1}}};
    report.echo.reset();
    return true;
  }
  // Its next report follows.
  void Hear(const Directive& told, Term term, std::int64_t beat) {
    CHECK(!Describe(told).empty());
    ++report.sequence;
    report.term = term;
    report.beat = beat;
    report.echo = told;
    if (const auto* const order = std::get_if<Run>(&told);
        order != nullptr && order->placement.generation > report.floor) {
      report.placement = order->placement;
      report.hosting = Hosting::kWorkers;
      report.outcome = Outcome::kNone;
      report.failures.clear();
    } else if (const auto* const stop = std::get_if<Stop>(&told)) {
      if (report.hosting != Hosting::kNothing) {
        report.outcome = Outcome::kStopped;
      }
      report.hosting = Hosting::kNothing;
      report.floor = std::max(report.floor, stop->generation);
      if (stop->cause == StopCause::kDeclaredLost) {
        report.former_incarnation = report.incarnation;
        report.incarnation.value += 2;
        report.sequence = 1;
        report.placement.reset();
        report.outcome = Outcome::kNone;
      }
    } else if (std::holds_alternative<Finish>(told)) {
      report.hosting = Hosting::kNothing;
    }
  }
};

inline WorkerFailure SomeFailure(FuzzInput& input) {
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
inline Placement SomePlacement(FuzzInput& input, const CoordinatorState& state) {
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

// But for its numbers' ends.
inline void MakeUp(FuzzInput& input, const CoordinatorState& state, NodeReport& report) {
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
  report.progress_groups.clear();
  if (says(5)) {
    report.hung_rank = input.Byte();
    for (int i = input.Byte() % 5; i > 0; --i) {
      const std::uint8_t count = input.Byte();
      report.progress_groups.push_back({input.Byte(), SomeText(input).substr(0, 255), input.Byte(),
                                        count, input.Byte() % (count + 1u), Duration{1'000},
                                        static_cast<ProgressSource>(input.Byte() % 3)});
    }
    report.progress = std::uint64_t{1} << input.Byte() % 64;
    report.start_timings = {std::nullopt, Duration{input.Byte()}, Duration{input.Byte()},
                            Duration{std::int64_t{1} << input.Byte() % 39}};
    report.ended_well = static_cast<std::uint32_t>(report.progress % (report.workers + 1u));
  }
  report.leaving =
      says(6) ? OneOf(input, std::array{Leaving::kLeave, Leaving::kStopRun}) : Leaving::kNo;
  report.checking = says(7) && input.Byte() % 2 == 0;
  report.unfit = says(7) ? SomeText(input).substr(0, kMaxUnfit) : "";
  report.term = {input.Byte() % 3u};
  report.beat = OneOf<std::int64_t>(input, std::array<std::int64_t, 3>{0, 1, INT64_MAX / 1'000});
  report.restarts_used = input.Byte();
}

// As what the border lets through says of itself for ever.
inline void MakeUpNode(FuzzInput& input, const RunSpec& spec, NodeReport& report) {
  const std::uint8_t who = input.Byte();
  report.node = who % 16 < 2 ? "n" + std::to_string(who % 16) : "x" + std::to_string(who);
  report.incarnation = {1'000u + input.Byte()};
  report.host = report.role = report.node + SomeText(input).substr(0, 200);
  report.page = {report.host, 8081};
  report.spec = spec;
  if (input.Byte() % 8 == 0) {
    report.spec.max_nodes += 1 + input.Byte();
  }
  report.workers = 1 + input.Byte();
}

}  // namespace ddprun

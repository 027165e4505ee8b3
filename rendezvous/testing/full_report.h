// For tests: messages in which every field has a value.
#pragma once

#include <chrono>
#include <string>

#include "rendezvous/messages/messages.h"

namespace ddprun {

using std::chrono_literals::operator""ms;

// Texts quote workers: no byte may be lost, and they need not be UTF-8.
inline const std::string kBytes("\xff\x00\x80 traceback\n", 14);

inline WorkerFailure SomeFailure(const ExitStatus& status) {
  return {.rank = 7,
          .local_rank = 3,
          .pid = 4242,
          .status = status,
          .said_hello = true,
          .stopped_by_us = true,
          .after = 17ms,
          .recorded = true,
          .host = "n1",
          .last_lines = kBytes,
          .details = {1'795'263'336'042, "/logs/attempt_0/3/error.json", "ValueError: " + kBytes,
                      kBytes}};
}

inline Placement SomePlacement() {
  return {.term = {5},
          .generation = {4},
          .world_id = {0xfedcba9876543210},
          .group_rank = 1,
          .group_size = 4,
          .first_rank = 4,
          .world_size = 16,
          .role_first_rank = 2,
          .role_world_size = 8,
          .store = {"n0", 41231},
          .restarts_used = 2};
}

inline NodeReport FullReport() {
  NodeReport report;
  report.run_id = "run 1";
  report.node = "n1#0";
  report.incarnation = {0xffffffffffffffff};
  report.former_incarnation = {0x1357};
  report.sequence = 99;
  report.term = {5};
  report.beat = 123456789;
  report.echo = Stop{{3}, {9}, StopCause::kScaleUp};
  report.spec = {2, 4, 3, 1'234ms, 5'678ms, false, 60'000ms, 5, 9'000ms, 45'000ms};
  report.host = "n1";
  report.node_rank = 0;
  report.workers = 4;
  report.first_local_rank = 2;
  report.role = "trainer";
  report.store = {"::1", 65535};
  report.hosting = Hosting::kStopping;
  report.placement = SomePlacement();
  report.outcome = Outcome::kFailed;
  report.failures = {SomeFailure(Exited{3}), SomeFailure(Killed{9, true})};
  report.spawn_failure = kBytes;
  report.floor = {4};
  report.restarts_used = 2;
  report.unkillable = 1;
  report.hung_rank = 0;
  report.progress = 1000;
  report.ended_well = 1;
  report.progress_groups = {{998, "data", 3, 1, 1, Duration(30'000)},
                            {1000, "", 0, 2, 0, Duration(0), ProgressSource::kCollectives}};
  report.leaving = Leaving::kStopRun;
  report.starting = true;
  report.interrupted = true;
  report.saving = true;
  report.checking = true;
  report.unfit = "GPU 3\xff is gone";
  report.facts = {{"gpu3", "is gone\xff", true}, {"links", "2 up", false}};
  report.start_timings = {Duration(1), Duration(0), std::nullopt, Duration(30)};
  report.rank_details = {
      .ranks = {{RankState::kLate, 998, Duration(31'000), std::chrono::microseconds(4), 1}, {}},
      .phases = {"data"},
      .training = TrainingPoint{998, -0.25, {}, 900},
      .steps = 2'000};
  report.requeues = 2;
  report.job_ends_unix = 1'795'320'000;
  report.addresses = "10.0.0.2,fd00::2";
  report.page = {"10.0.0.2", 8'081};
  return report;
}

}  // namespace ddprun

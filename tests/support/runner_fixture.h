// A test's own runner with fake workers, and a loop that is run until something holds.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/workers/process_runner.h"
#include "agent/workers/worker_launcher.h"
#include "rendezvous/testing/pump.h"
#include "tests/support/marked.h"
#include "tests/support/scratch_directory.h"

namespace ddprun::testing {

// FAKE_WORKER: the file, by the test's build.
class RunnerTest : public ::testing::Test {
 protected:
  explicit RunnerTest(RunnerConfig config)
      : runner_(loop_, std::move(config),
                {.on_ended =
                     [this](std::uint32_t rank, ExitStatus status, const LastErrors&) {
                       order_.push_back(rank);
                       ended_.emplace(rank, status);
                       if (when_ended_) {
                         when_ended_(rank);
                       }
                     },
                 .on_all_gone = [this] { all_gone_ = true; }}) {}

  static std::vector<WorkerSpec> Specs(std::uint32_t workers, std::vector<std::string> args,
                                       const OutputRequest& output = {}) {
    args.insert(args.begin(), "fake_worker");
    std::vector<WorkerSpec> specs;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      const WorkerEnv env{
          .rank = rank, .local_rank = rank, .world_size = workers, .local_world_size = workers};
      specs.push_back(
          MakeWorkerSpec({.file = FAKE_WORKER, .argv = args}, env, ProcessEnvironment(), output));
    }
    return specs;
  }

  // Noted in spawned_, in a later iteration of the loop.
  void BeginToSpawn(const std::vector<WorkerSpec>& specs) {
    spawned_.reset();
    runner_.Spawn([specs](const BeginStep&) -> Result<std::vector<WorkerSpec>> { return specs; },
                  [this](const Result<void>& result) { spawned_ = result; });
    EXPECT_FALSE(runner_.Empty());
  }
  Result<void> Spawn(const std::vector<WorkerSpec>& specs) {
    BeginToSpawn(specs);
    EXPECT_TRUE(RunUntil([this] { return spawned_.has_value(); }));
    return *spawned_;
  }
  void Spawn(std::uint32_t workers, const std::vector<std::string>& args,
             const OutputRequest& output = {}) {
    const Result<void> spawned = Spawn(Specs(workers, args, output));
    ASSERT_TRUE(spawned) << spawned.error().message;
  }

  // False: not within ten seconds.
  bool RunUntil(const std::function<bool()>& condition) { return PumpUntil(loop_, condition); }
  bool RunUntilAllGone() {
    return RunUntil([this] { return all_gone_; });
  }
  bool RunUntilThere(const std::filesystem::path& path) {
    return RunUntil([&] { return std::filesystem::exists(path); });
  }
  std::string Scratch(const std::string& name) const { return scratch_.path() / name; }

  ScratchDirectory scratch_;
  ProcessMark mark_;
  AsioLoop loop_;
  std::optional<Result<void>> spawned_;
  std::vector<std::uint32_t> order_;
  std::map<std::uint32_t, ExitStatus> ended_;
  std::function<void(std::uint32_t)> when_ended_;
  bool all_gone_ = false;
  ProcessRunner runner_;
};

}  // namespace ddprun::testing

// What a person does with a training beside running it: validate, stop early, publish, start from
// somebody's parameters, profile. A part of ddprun-train's command line (config.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/profiler/schedule.h"

namespace CLI {
class App;
}

namespace ddprun {

// A rank that is made slower on purpose.
struct Skew {
  std::uint32_t rank = 0;
  std::chrono::milliseconds by{0};  // In every step.
  bool operator==(const Skew&) const = default;
};

struct RunOptions {
  std::int64_t validate_every = 0;      // Steps; 0: never.
  std::int64_t validation_samples = 0;  // The last ones of the training set; 0: the test set.
  bool keep_best = false;
  std::int64_t early_stop = 0;         // Validations without a gain; 0: never.
  std::filesystem::path eval_package;  // Computes the forward of evaluations. Empty: none.
  std::filesystem::path publish;       // Directory. Empty: none.
  std::filesystem::path init_from;
  std::string init_strict = "yes";
  std::vector<std::string> freeze;         // Prefixes of parameters' names.
  std::vector<std::string> split_devices;  // Of the model's parts, in order.
  std::filesystem::path profile;           // Directory. Empty: none.
  std::filesystem::path tensorboard;       // Directory. Empty: none.
  std::string profile_schedule = "1,1,3";
  std::string skew;  // "1:250": rank 1 by 250 ms.
  std::string memory_snapshots = "yes";
  bool no_sync = false;  // Gradients are not averaged.

  // What the texts above mean; set by FinishRunOptions once they are valid.
  ProfileSchedule schedule;
  std::vector<Skew> skews;
};

void AddRunOptions(CLI::App& app, RunOptions& options);
void CheckRunOptions(const RunOptions& options, std::vector<std::string>& problems);
void FinishRunOptions(RunOptions& options);

// "RANK:MILLISECONDS,..."; empty: none.
std::optional<std::vector<Skew>> ParseSkews(const std::string& text);

}  // namespace ddprun

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
  // Steps between validations: too few spend the time on them; 0: never.
  std::int64_t validate_every = 0;
  // The last samples of the training set, held back for validation: too many leave too few to train
  // on; 0: the test set validates.
  std::int64_t validation_samples = 0;
  // The checkpoint with the least validation loss is kept; without validate_every the command line
  // is refused.
  bool keep_best = false;
  // Validations without a gain that end the training: too few end it at a plateau; 0: never.
  std::int64_t early_stop = 0;
  // The package that computes the forward of evaluations; empty: none. It is code that runs here.
  std::filesystem::path eval_package;
  // The directory of the published model; empty: none is published.
  std::filesystem::path publish;
  // The file of the first parameters; empty: they are drawn. One that does not fit ends the start.
  std::filesystem::path init_from;
  // "no": parameters of init_from that do not fit are left out, and reported.
  std::string init_strict = "yes";
  // Prefixes of parameters that are not trained: if all are, the start fails.
  std::vector<std::string> freeze;
  // The devices of the model's parts, in order: another number than the model has parts fails.
  std::vector<std::string> split_devices;
  // The directory of traces; empty: none are recorded.
  std::filesystem::path profile;
  // The directory of TensorBoard's event files; empty: none are written.
  std::filesystem::path tensorboard;
  // The steps that are recorded: many of them make large traces.
  std::string profile_schedule = "1,1,3";
  // "1:250" makes rank 1 slower by 250 ms in every step, and so all ranks.
  std::string skew;
  // "no": a restart continues only from checkpoints.
  std::string memory_snapshots = "yes";
  // Gradients are not averaged, so the ranks' models diverge.
  bool no_sync = false;

  // The meaning of profile_schedule; set by Parse once all texts are valid.
  ProfileSchedule schedule;
  // The meaning of skew; set by Parse too.
  std::vector<Skew> skews;
};

void AddRunOptions(CLI::App& app, RunOptions& options);
void CheckRunOptions(std::vector<std::string>& problems, const RunOptions& options);

// "RANK:MILLISECONDS,..."; empty: none.
std::optional<std::vector<Skew>> ParseSkews(const std::string& text);

}  // namespace ddprun

// ddprun-train's command line as one value, checked as a whole before anything starts.
//
// Parse reads the arguments and nothing else; Problems lists everything that is wrong with the
// values, not only the first. Nothing reads a flag after start.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trainer/arguments.h"
#include "trainer/backend.h"
#include "trainer/device/choose_device.h"
#include "trainer/options/command_line.h"
#include "trainer/options/learning_options.h"
#include "trainer/options/run_options.h"

namespace ddprun {

enum class ResumeMode {
  kAuto,   // From the newest valid checkpoint, else afresh.
  kNever,  // Afresh; only a restart within the same run continues from that run's own checkpoints.
  kMust,   // As kAuto, but no checkpoint is an error.
};

// Exactly one of the two is set; both empty: only at the ends of epochs.
struct CheckpointInterval {
  std::optional<std::uint64_t> steps;
  std::optional<std::chrono::seconds> time;
};

// A flag of a program with a model of its own.
struct ProgramFlag {
  std::string name;
  std::string value;
  std::string help;
  bool same_on_all_ranks = true;
};

// Where the model's recipe decides, what stands here is that of mlp.
struct TrainConfig {
  std::string model = "mlp";
  std::string model_arg;            // "layers=1,ff=64"
  std::string dataset = "mnist";    // By the model's recipe.
  std::string data_arg;             // Likewise.
  std::filesystem::path data_root;  // Empty: the data that came with the trainer.
  std::int64_t epochs = 5;
  std::int64_t batch = 64;  // Of one rank; times the world size it is the global batch. Recipe.
  std::int64_t micro_batch = 0;        // The most samples of one forward; 0: as many as --batch.
  std::string optimizer = "adam";      // Recipe.
  double lr = 1e-3;                    // Recipe.
  bool scale_lr = false;               // Times the global batch's number of --batch.
  std::optional<double> weight_decay;  // None: the optimizer's default.
  double momentum = 0;
  bool nesterov = false;
  std::int64_t seed = 1;
  std::filesystem::path checkpoint_dir;  // Empty: checkpoints/<dataset>-<model>.
  std::string checkpoint_every = "200";
  std::string resume = "auto";
  std::int64_t keep_last = 3;
  std::optional<std::int64_t> limit_train;  // Only the first samples of the training set.
  std::filesystem::path metrics;            // Empty: metrics.jsonl beside the checkpoints.
  std::filesystem::path dump_parameters;    // Empty: none.
  std::filesystem::path sample_log;         // Directory. Empty: none.
  std::int64_t threads = 0;                 // 0: this rank's share of the cores.
  std::int64_t collective_timeout = 120;    // Seconds.
  double bucket_mib = 25;
  std::string backend = "auto";
  std::string device = "auto";
  LearningOptions learning;
  std::optional<double> progress_every;  // Seconds; none: 1, or 0.2 on a terminal.

  RunOptions run;

  // A program with a model of its own: `model` is its name, and no flag about a model of ours
  // counts.
  bool own_model = false;
  std::vector<ProgramFlag> program_flags;
  std::string program_arguments;  // "width=64,heads=4": those that are the same on all ranks.

  // The meaning of the texts above; set by Parse once they are valid.
  ResumeMode resume_mode = ResumeMode::kAuto;
  CheckpointInterval checkpoint_interval;
  BackendChoice backend_choice = BackendChoice::kAuto;
  DeviceSpec device_spec;
  Arguments model_arguments;
  Arguments data_arguments;
  OptimizerOptions optimizer_options;

  // Not a training that is to begin anew, or whose ranks part.
  bool GoesOnFromMemory() const {
    return run.memory_snapshots == "yes" && resume_mode != ResumeMode::kNever && !run.no_sync;
  }
};

std::variant<TrainConfig, EarlyExit> Parse(int argc, const char* const* argv);

// The same for a program with a model of its own: all flags that are not about our models, and its
// own ones. `defaults` gives its name (`model`), its flags, and its defaults of --epochs and
// --batch.
std::variant<TrainConfig, EarlyExit> ParseProgram(TrainConfig defaults,
                                                  const std::string& description, int argc,
                                                  const char* const* argv);

// Each wrong value in one sentence. Empty: none.
std::vector<std::string> Problems(const TrainConfig& config);

// "200" (steps) or "30s" (seconds).
std::optional<CheckpointInterval> ParseCheckpointInterval(const std::string& text);
std::optional<ResumeMode> ParseResumeMode(const std::string& text);

}  // namespace ddprun

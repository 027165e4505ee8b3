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

#include "common/time.h"
#include "trainer/arguments.h"
#include "trainer/backend.h"
#include "trainer/device/choose_device.h"
#include "trainer/options/command_line.h"
#include "trainer/options/learning_options.h"
#include "trainer/options/run_options.h"

namespace ddprun {

// Exactly one of the two is set; both empty: only at the ends of epochs.
struct CheckpointInterval {
  std::optional<std::uint64_t> steps;
  std::optional<Duration> time;
};

// A flag of a program with a model of its own.
struct ProgramFlag {
  std::string name;
  std::string value;
  std::string help;
  bool same_on_all_ranks = true;
};

// The defaults that a recipe decides are mlp's here. A value outside of its flag's range ends
// ddprun-train with exit code 2 before anything starts.
struct TrainConfig {
  // A name that is not known is refused with the known ones.
  std::string model = "mlp";
  // The model's arguments, as "layers=1,ff=64": checkpoints of other ones are refused.
  std::string model_arg;
  // The data set; unset, the recipe's. One that does not fit the model is refused.
  std::string dataset = "mnist";
  // The data set's arguments, as "train=1000".
  std::string data_arg;
  // The directory of the data; empty: the data that came with the trainer.
  std::filesystem::path data_root;
  // Times through the training set: too few end the training before it has learned.
  std::int64_t epochs = 5;
  // Samples of one rank in a step; unset, the recipe's. Too many exhaust the memory.
  std::int64_t batch = 64;
  // The most samples of one forward: too many exhaust the memory, few make steps slow; 0: as many
  // as --batch.
  std::int64_t micro_batch = 0;
  // The optimizer; unset, the recipe's.
  std::string optimizer = "adam";
  // The learning rate; unset, the recipe's. Too large diverges, too small hardly learns.
  double lr = 1e-3;
  // The rate is multiplied by the number of --batch in a global batch: many ranks can diverge
  // without a warm-up.
  bool scale_lr = false;
  // Pulls parameters to zero: too large keeps the model from learning; none: the optimizer's
  // default.
  std::optional<double> weight_decay;
  // Decides initial parameters and sample order: another seed is another training.
  std::int64_t seed = 1;
  // The directory of checkpoints; empty: checkpoints/<dataset>-<model>. One that another training
  // uses is refused.
  std::filesystem::path checkpoint_dir;
  // Steps, or seconds as "30s": too long loses work at a failure, too short writes all the time.
  std::string checkpoint_every = "200";
  // auto: from the newest valid checkpoint, else afresh; must: as auto, but no checkpoint is an
  // error; never: afresh, and only a restart within the same run continues from that run's own
  // checkpoints.
  std::string resume = "auto";
  // Checkpoints to keep: few leave no older one where the newest is damaged, many fill the disk.
  std::int64_t keep_last = 3;
  // Only the first samples of the training set; none: all.
  std::optional<std::int64_t> limit_train;
  // The file of metrics; "none": none is written; empty: metrics.jsonl beside the checkpoints.
  std::filesystem::path metrics;
  // The file of the final parameters; empty: none is written.
  std::filesystem::path dump_parameters;
  // The directory of sample logs; empty: none are written.
  std::filesystem::path sample_log;
  // Threads of this rank: too many compete with the other ranks; 0: this rank's share of the cores.
  std::int64_t threads = 0;
  // The time after which a silent peer counts as lost: too short ends ranks at a slow step, too
  // long finds a dead peer late.
  std::string collective_timeout = "120";
  // The size of a bucket of gradients: small ones cost a message each, large ones hide no time
  // behind the backward.
  double bucket_mib = 25;
  // auto, gloo, shm or nccl: one that the devices do not have is refused.
  std::string backend = "auto";
  // auto, cpu, cuda or cuda:N: a GPU that is not there is an error.
  std::string device = "auto";
  // The flags about how a step is computed.
  LearningOptions learning;
  // The time between progress lines: 0 prints every step; empty: 1 s, or 0.2 s on a terminal.
  std::string progress_every;

  // The flags beside the training itself.
  RunOptions run;

  // A program with a model of its own, whose name is `model`: flags about our models are ignored.
  bool own_model = false;
  // The program's own flags; a name of ours is refused.
  std::vector<ProgramFlag> program_flags;
  // "width=64,heads=4": the program's flags that are the same on all ranks; a checkpoint of other
  // values is refused.
  std::string program_arguments;

  // The meaning of checkpoint_every; as all fields below, set by Parse once the texts are valid.
  CheckpointInterval checkpoint_interval;
  // The meaning of collective_timeout.
  Duration peer_timeout{120'000};
  // The meaning of progress_every.
  std::optional<Duration> progress_interval;
  // The meaning of `backend`.
  BackendChoice backend_choice = BackendChoice::kAuto;
  // The meaning of `device`.
  DeviceSpec device_spec;
  // The meaning of model_arg.
  Arguments model_arguments;
  // The meaning of data_arg.
  Arguments data_arguments;
  // The meaning of `optimizer` and weight_decay; the other constants are flags' own.
  OptimizerOptions optimizer_options;

  std::size_t BucketBytes() const { return static_cast<std::size_t>(bucket_mib * (1 << 20)); }
  // False for a training that is to begin anew, or whose ranks part.
  bool GoesOnFromMemory() const {
    return run.memory_snapshots == "yes" && resume != "never" && !run.no_sync;
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

// "200" (steps), or a time with a unit: "30s", "5m".
std::optional<CheckpointInterval> ParseCheckpointInterval(const std::string& text);

}  // namespace ddprun

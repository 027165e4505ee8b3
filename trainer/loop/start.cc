#include "trainer/loop/start.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/format.h"
#include "trainer/checkpoint/memory_start.h"
#include "trainer/data/sampler.h"
#include "trainer/learning/early_stopping.h"
#include "trainer/loop/blocking_tasks.h"
#include "trainer/results.h"
#include "trainer/shared_settings.h"
#include "trainer/tensorboard/curve_file.h"

namespace ddprun {
namespace {

// The states that a rank has found in its node's memory and, rank 0, on its disk. Filled in on a
// thread.
struct Choice {
  TrainState asked;
  std::optional<Snapshot> found;         // In this node's memory.
  std::optional<Remembered> remembered;  // The newest that any rank has found.
  Result<void> read;
  ChosenStart chosen;
};

// The newest state in the memory of any node.
Result<void> LookInMemory(Training& training, MemorySnapshots* memory,
                          const std::shared_ptr<Choice>& choice) {
  if (memory == nullptr) {
    return {};
  }
  RETURN_IF_ERROR(AwaitTogether(training, {.what = "the state in memory is being read",
                                           .work =
                                               [memory, choice] {
                                                 choice->found = memory->Find();
                                                 return Result<void>();
                                               },
                                           .on_disk = false}));
  const std::uint32_t rank = training.env.rank;
  std::vector<double> ages(kAgeNumbers * training.env.world_size);
  if (choice->found) {
    PutAge(choice->found->state,
           std::span<double, kAgeNumbers>(ages.data() + kAgeNumbers * rank, kAgeNumbers));
  }
  RETURN_IF_ERROR(training.group->Sum(ages));
  const std::optional<std::uint32_t> newest = NewestOf(ages);
  if (!newest) {
    return {};
  }
  std::string text;
  if (newest == rank) {
    text = ToJson(StateFile{choice->found->state, {}});
  }
  ASSIGN_OR_RETURN(text, training.group->BroadcastText(std::move(text), *newest));
  ASSIGN_OR_RETURN(StateFile file, StateFileFromJson(text, "the newest state in memory"));
  choice->remembered = Remembered{std::move(file.state), *newest};
  return {};
}

// Rank 0. A training that does not begin has no curves to add to.
Result<void> OpenOutputs(Training& training, const StartPlan& plan) {
  const TrainConfig& config = training.config;
  if (!config.metrics.empty()) {
    ASSIGN_OR_RETURN(training.metrics,
                     LineFile::Open(config.metrics, {.what = "metrics", .flag = "--metrics"}));
  }
  if (plan.kind != StartKind::kFinished) {
    ASSIGN_OR_RETURN(training.curves, OpenCurves(config.run.tensorboard, plan.state.step));
  }
  return {};
}

// Rank 0, on the disk's thread.
Result<void> ReadStart(Training& training, Saving& saving, Choice& choice) {
  const TrainConfig& config = training.config;
  RETURN_IF_ERROR(PrepareOutputs(config));
  ASSIGN_OR_RETURN(choice.chosen, saving.Choose(choice.asked, choice.remembered));
  if (RunFiles::StopAsked(config.checkpoint_dir)) {
    return Error{ErrorKind::kRefused,
                 "'" + (config.checkpoint_dir / "STOP").native() +
                     "' exists, so nothing is trained. Remove it to train on [stop-file]"};
  }
  // After the directory was made, where metrics may be.
  RETURN_IF_ERROR(OpenOutputs(training, choice.chosen.plan));
  if (choice.chosen.plan.kind == StartKind::kFresh) {
    for (StepObserver* const observer : training.observers) {
      RETURN_IF_ERROR(observer->ReadFreshState());
    }
  }
  return {};
}

// Rank 0.
Result<StartPlan> TakeStart(Training& training, Choice& choice) {
  RETURN_IF_ERROR(choice.read);
  StartPlan& plan = choice.chosen.plan;
  if (choice.chosen.loaded) {
    RETURN_IF_ERROR(training.learner->CopyFrom(*choice.chosen.loaded));
  } else if (plan.kind == StartKind::kFresh) {
    for (StepObserver* const observer : training.observers) {
      RETURN_IF_ERROR(observer->TakeFreshState(plan.notes));
    }
  }
  return std::move(plan);
}

void LogDevice(const Device& device) {
  if (!device.note.empty()) {
    Log(LogLevel::kInfo, device.note);
  }
  if (!device.plugin) {
    return;
  }
  const Result<DeviceFacts> gpu = device.plugin->Describe(device.index);
  if (!gpu) {
    Log(LogLevel::kWarning, gpu.error().message);
    return;
  }
  constexpr double kGiB = 1 << 30;
  Log(LogLevel::kInfo,
      "computing on GPU " + std::to_string(device.index) + " (" + gpu->name +
          Format(", %.1f of %.1f GiB free)", static_cast<double>(gpu->free_bytes) / kGiB,
                 static_cast<double>(gpu->total_bytes) / kGiB));
}

// Lines of rank 0: the device, notes, parts of steps, where the training starts.
void LogStart(const Training& training, const StartPlan& plan) {
  const TrainConfig& config = training.config;
  const WorkerEnv& env = training.env;
  LogDevice(training.device);
  if (!training.group->note().empty()) {
    Log(LogLevel::kInfo, training.group->note());
  }
  for (const std::string& note : plan.notes) {
    Log(LogLevel::kInfo, note);
  }
  for (const Skew& skew : config.run.skews) {
    Log(LogLevel::kInfo, "rank " + std::to_string(skew.rank) + " is made slower by " +
                             std::to_string(skew.by.count()) + " ms in every step (--skew)" +
                             (skew.rank < env.world_size ? "" : ", but there is none"));
  }
  if (config.run.no_sync) {
    Log(LogLevel::kWarning,
        "gradients are not averaged (--no-sync): each rank trains a model of its own on its share; "
        "checkpoints are rank 0's");
  }
  const std::uint64_t largest_part = training.LargestPart();
  const std::uint64_t share = std::min<std::uint64_t>(
      LargestShare(plan.state.global_batch, env.world_size), training.dataset.train.count);
  if (largest_part < share) {
    Log(LogLevel::kInfo,
        std::string(config.own_model ? "session.Parts cuts each rank's "
                                     : "each rank learns from its ") +
            std::to_string(share) + " samples of a step " + (config.own_model ? "into" : "in") +
            " parts of at most " + std::to_string(largest_part) + ", whose gradients add up" +
            (config.learning.cuda_graph ? "; --cuda-graph records only steps of one part: none here"
                                        : ""));
  }
  const std::string where = " (" + std::to_string(env.world_size) +
                            (env.world_size == 1 ? " rank" : " ranks") + ", global batch " +
                            std::to_string(plan.state.global_batch) + ", checkpoints in " +
                            config.checkpoint_dir.string() + ")";
  if (plan.kind != StartKind::kFresh) {
    Log(LogLevel::kInfo, "resumed at step " + std::to_string(plan.state.step) + ", epoch " +
                             std::to_string(plan.state.epoch + 1) + " of " +
                             std::to_string(config.epochs) + where);
  } else {
    Log(LogLevel::kInfo, "training " + config.model + " on " + config.dataset + where);
  }
}

}  // namespace

Result<void> JoinWorld(Training& training) {
  const TrainConfig& config = training.config;
  const WorkerEnv& env = training.env;
  GroupOptions options;
  options.timeout = config.peer_timeout;
  options.interface = GlooInterface();
  options.backend = config.backend_choice;
  options.device = training.device;
  options.settle = [&](Board& board) {
    return AgreeOnSettings(board, SharedSettingsOf(config), env.rank, env.world_size);
  };
  ASSIGN_OR_RETURN(training.group, ProcessGroup::Join(env, options));
  return {};
}

Result<void> CompareSamples(Training& training) {
  const WorkerEnv& env = training.env;
  std::vector<double> all(2 * env.world_size);
  all[2 * env.rank] = training.dataset.train.count;
  all[2 * env.rank + 1] = training.dataset.test.count;
  RETURN_IF_ERROR(training.group->Sum(all));
  return AgreeOnSamples(all);
}

Result<StartPlan> AgreeOnStart(Training& training, Saving& saving) {
  const auto choice = std::make_shared<Choice>();
  if (training.IsRankZero()) {
    training.printer.emplace(training.config.progress_interval);
    choice->asked =
        FreshState(training.config, training.env.world_size, training.learner->Describe());
    choice->asked.hyperparameters["backend"] = training.group->backend();
    choice->asked.hyperparameters["frozen"] = training.learner->Frozen();
  }
  RETURN_IF_ERROR(LookInMemory(training, saving.OpenMemory(), choice));
  const std::string& given = training.config.run.init_from.native();
  BlockingTask task{.what = "the checkpoints in '" + training.config.checkpoint_dir.native() + "'" +
                            (given.empty() ? "" : ", or '" + given + "' (--init-from),") +
                            " are being claimed and read",
                    .waits_too = "to see whether another training writes there"};
  if (training.IsRankZero()) {
    task.work = [&training, &saving, choice] {
      choice->read = ReadStart(training, saving, *choice);
      return Result<void>();
    };
  }
  RETURN_IF_ERROR(AwaitTogether(training, std::move(task)));
  std::string text;
  if (training.IsRankZero()) {
    Result<StartPlan> plan = TakeStart(training, *choice);
    text = ToText(plan ? *plan : StartPlan{.refusal = plan.error()});
  }
  ASSIGN_OR_RETURN(text, training.group->BroadcastText(std::move(text)));
  ASSIGN_OR_RETURN(StartPlan plan, StartPlanFromText(text));
  if (plan.refusal) {
    // With its reason on every rank: the launcher may end rank 0 before it prints its own line.
    return Error{plan.refusal->kind,
                 (training.IsRankZero() ? "" : "rank 0 did not start: ") + plan.refusal->message};
  }
  if (plan.kind == StartKind::kFromMemory && plan.state_from == training.env.rank) {
    RETURN_IF_ERROR(training.learner->CopyFrom(*choice->found));
  }
  return plan;
}

Result<void> StartFrom(const StartPlan& plan, Training& training) {
  const TrainConfig& config = training.config;
  TrainState& state = training.state;
  state = plan.state;
  state.finished = false;
  // Of the results of the training that this one continues from, only those that continue too.
  state.metrics = ValidationMetrics(state.metrics);
  training.stopped_early =
      EnoughValidations(state.metrics, static_cast<std::uint64_t>(config.run.early_stop));
  const std::uint64_t samples = training.dataset.train.count;
  if (state.samples_in_epoch >= samples) {
    return Invalid("the checkpoint has used more samples of its epoch than the data set has",
                   std::to_string(state.samples_in_epoch) + " of " + std::to_string(samples));
  }
  if (samples < training.LeastBatch()) {
    return Error{ErrorKind::kInvalid, "--drop-last leaves no sample: a step of all ranks takes " +
                                          std::to_string(state.global_batch) +
                                          ", and the data set has " + std::to_string(samples) +
                                          ". Set a smaller --batch"};
  }
  if (samples - state.samples_in_epoch < training.LeastBatch()) {  // The checkpoint was without it.
    ++state.epoch;
    state.samples_in_epoch = 0;
  }
  training.schedule = ScheduleOf(config.learning, state.step + training.StepsLeft());
  RETURN_IF_ERROR(training.learner->Start(state.buckets, plan.state_from));
  training.heartbeat.Resume(state.step);
  if (training.IsRankZero()) {
    LogStart(training, plan);
  }
  return {};
}

}  // namespace ddprun

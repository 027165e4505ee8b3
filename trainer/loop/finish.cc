#include "trainer/loop/finish.h"

#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/files.h"
#include "trainer/learning/early_stopping.h"
#include "trainer/loop/blocking_tasks.h"
#include "trainer/loop/evaluation.h"
#include "trainer/results.h"
#include "trainer/tensorboard/curve_file.h"

namespace ddprun {
namespace {

// Rank 0. One after the other, so that each says by itself what is waited for.
Result<void> WriteEverything(Training& training, Saving& saving, bool save) {
  const TrainConfig& config = training.config;
  const auto last = std::make_shared<const Snapshot>(saving.MakeSnapshot());
  const std::uint64_t bytes = ByteCount(*last);
  const std::string directory = "'" + config.checkpoint_dir.native() + "'";
  if (save) {  // Before all that a full disk may refuse.
    RETURN_IF_ERROR(Await(
        training, {.what = "the last checkpoint (step " + std::to_string(training.state.step) +
                           ") is being saved in " + directory,
                   .bytes = 2 * bytes,  // One may be on its way already.
                   .work = [&saving, last] { return saving.SaveNow(Snapshot(*last)); }}));
  }
  if (const std::filesystem::path& path = config.dump_parameters; !path.empty()) {
    RETURN_IF_ERROR(
        Await(training, {.what = "the parameters are being written to '" + path.native() + "'",
                         .bytes = bytes,
                         .work = [path, last] { return WriteParameters(path, last->model); }}));
  }
  for (StepObserver* const observer : training.observers) {
    RETURN_IF_ERROR(observer->AfterLastSave(saving, last));
  }
  RETURN_IF_ERROR(Await(training, {.what = "the checkpoints in " + directory + " are being closed",
                                   .work = [&saving] { return saving.CloseDirectory(); }}));
  if (const std::filesystem::path& path = config.learning.result; !path.empty()) {
    RETURN_IF_ERROR(
        Await(training, {.what = "the result is being written to '" + path.native() + "'",
                         .work = [path, state = training.state, ranks = training.env.world_size] {
                           return WriteResult(path, state, ranks);
                         }}));
  }
  return {};
}

Result<void> PrintResult(Training& training) {
  const std::string lines = ResultLines(training.state);
  return Await(training, {.what = "the result is being written to standard output",
                          .bytes = lines.size(),
                          .work = [lines]() -> Result<void> {
                            (void)WriteAll(STDOUT_FILENO, lines, "standard output");
                            return {};
                          }});
}

void AddMetrics(const std::string& name, const Samples& set, const Evaluation& result,
                bool classifies, std::map<std::string, double>& metrics) {
  metrics[name + "_loss"] = result.loss;
  metrics[name + "_samples"] = set.count;
  if (classifies) {
    metrics[name + "_accuracy"] = result.accuracy;
  }
  for (const auto& [other, value] : result.others) {
    metrics[name + "_" + other] = value;
  }
}

std::vector<Scalar> CurvesOf(const std::map<std::string, double>& metrics) {
  std::vector<Scalar> curves;
  for (const auto& [name, value] : metrics) {
    if (!name.ends_with("_samples")) {
      curves.push_back({"end/" + name, value});
    }
  }
  return curves;
}

}  // namespace

Result<void> Finish(Training& training, Saving& saving) {
  std::map<std::string, double> metrics;
  for (const auto& [name, set] : training.final_sets) {
    ASSIGN_OR_RETURN(const Evaluation result,
                     Evaluate(training, *set, [&saving] { saving.SaveIfAskedToStop(); }));
    AddMetrics(name, *set, result, training.dataset.task.classifies(), metrics);
  }
  if (!training.IsRankZero()) {
    return {};
  }
  training.heartbeat.Phase(kCheckpointPhase);
  TrainState& state = training.state;
  state.finished = true;
  const std::map<std::string, double> validation = ValidationMetrics(state.metrics);
  state.metrics = std::move(metrics);
  training.curves.Append(CurveRecord(state.step, CurvesOf(state.metrics)));
  state.metrics.insert(validation.begin(), validation.end());
  if (training.stopped_early) {
    state.metrics[kStoppedEarly] = 1;
  }
  training.best = false;  // Was saved as such.
  RETURN_IF_ERROR(WriteEverything(training, saving, /*save=*/true));
  return PrintResult(training);
}

Result<void> RepeatResult(Training& training, Saving& saving, const TrainState& state) {
  if (!training.IsRankZero()) {
    return {};
  }
  training.state = state;
  RETURN_IF_ERROR(WriteEverything(training, saving, /*save=*/false));
  Log(LogLevel::kInfo,
      "this training is finished already: " + std::to_string(state.epoch) + " epochs, " +
          std::to_string(state.step) + " steps, in " + training.config.checkpoint_dir.string() +
          ". Train on with more --epochs; start afresh with --resume=never or another "
          "--checkpoint-dir. Its result was:");
  return PrintResult(training);
}

}  // namespace ddprun

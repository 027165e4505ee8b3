// How a training ends: evaluated, saved, its result said.
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/files.h"
#include "common/log.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/learning/early_stopping.h"
#include "trainer/profiler/memory.h"
#include "trainer/publishing.h"
#include "trainer/stop_request.h"
#include "trainer/trainer.h"

namespace ddprun {
namespace {

std::string ScoreLine(const std::string& of, double accuracy, double loss, double samples) {
  char text[128];
  char share[32] = "";
  if (std::isfinite(accuracy)) {
    std::snprintf(share, sizeof share, "accuracy %.2f%%, ", 100 * accuracy);
  }
  std::snprintf(text, sizeof text, "%sloss %.4f (%.0f samples)\n", share, loss, samples);
  return of + " " + text;
}

constexpr std::chrono::milliseconds kStopLook{100};

constexpr const char* kResultFlag = "--result";
constexpr const char* kParametersFlag = "--dump-parameters";

const char* KindName(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFLNK:
      return "a link";
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

// What it is until it is whole; nobody has a file of that name.
std::filesystem::path UnfinishedOf(const std::filesystem::path& path) {
  return path.parent_path() / ("." + path.filename().native() + ".ddprun-part");
}

// A rename over it would make a file of /dev/null, for all who use the machine. What can be known
// of the directory is said before hours of training: it is made, as that of checkpoints is.
Result<void> PrepareOutput(const std::string& flag, const std::filesystem::path& path) {
  struct stat info {};
  if (path.empty()) {
    return {};
  }
  if (!path.has_filename()) {
    return Error{ErrorKind::kInvalid, flag + ": '" + path.native() + "' must end in a file's name"};
  }
  for (const std::filesystem::path& name : {path, UnfinishedOf(path)}) {
    if (::lstat(name.c_str(), &info) != 0 && errno != ENOENT) {
      return SystemError("look at what " + flag + " names,", name.native(), errno);
    }
  }
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  if (const Result<void> made = MakeDirectories(directory, 0777); !made) {
    return Error{made.error().kind, flag + ": " + made.error().message};
  }
  if (::access(directory.c_str(), W_OK | X_OK) != 0) {
    return SystemError("write what " + flag + " names in", directory.native(), errno);
  }
  if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return Error{ErrorKind::kInvalid,
                 flag + ": '" + path.native() + "' is " + KindName(info.st_mode) +
                     ", which is left alone: name an ordinary file, or what is not there yet"};
  }
  return {};
}

// All of it or what was there before.
Result<void> WriteOutput(const std::string& flag, const std::filesystem::path& path,
                         const std::vector<std::string_view>& parts) {
  RETURN_IF_ERROR(PrepareOutput(flag, path));
  const std::filesystem::path temporary = UnfinishedOf(path);
  const Result<std::uint64_t> written = RealFileSystem().Write(temporary, parts);
  const Result<void> named =
      written ? RealFileSystem().Rename(temporary, path) : Result<void>(written.error());
  if (!named) {
    ::unlink(temporary.c_str());
    return Error{named.error().kind, flag + ": " + named.error().message};
  }
  return {};
}

Result<void> WriteParameters(const std::filesystem::path& path,
                             const std::vector<Tensor>& parameters) {
  const std::string header = SafetensorsHeader(parameters, {{"format", "pt"}});
  return WriteOutput(kParametersFlag, path, SafetensorsParts(header, parameters));
}

}  // namespace

Result<void> Trainer::PrepareOutputs() const {
  RETURN_IF_ERROR(PrepareOutput(kResultFlag, config_.learning.result));
  return PrepareOutput(kParametersFlag, config_.dump_parameters);
}

Result<Trainer::Evaluation> Trainer::Evaluate(const Samples& samples, bool at_end) {
  heartbeat_.Phase(kEvaluatedPhase);  // There may be something to wait for.
  RETURN_IF_ERROR(learner_->ShareBuffers());
  heartbeat_.Phase(kEvaluatePhase);
  Score score;
  std::vector<std::uint32_t> indices;
  for (std::uint64_t i = env_.rank; i < samples.count;) {
    indices.clear();
    for (; i < samples.count && indices.size() < model_.evaluation_batch; i += env_.world_size) {
      indices.push_back(static_cast<std::uint32_t>(i));
    }
    {
      const ReadWatch::Reading reading(reads_);
      RETURN_IF_ERROR(
          samples.gather(indices, std::nullopt, learner_->room(Learner::kEvaluationSlot)));
    }
    ASSIGN_OR_RETURN(const Score part, learner_->Evaluate(indices.size()));
    score += part;
    if (at_end) {
      SaveIfAskedToStop();
    }
  }
  heartbeat_.Phase(kEvaluatedPhase);
  std::array<double, 3> sums = {score.loss_sum, static_cast<double>(score.correct),
                                static_cast<double>(score.samples)};
  RETURN_IF_ERROR(at_end && IsRankZero() ? SumAtEnd(sums) : group_->Sum(sums));
  return Evaluation{sums[0] / sums[2], sums[1] / sums[2]};
}

// It may take longer than who asked has patience, and a restart need not train again for it.
void Trainer::SaveIfAskedToStop() {
  if (!IsRankZero() || !StopRequest::Signal() || checkpointing_->handed_over() == state_.step ||
      !checkpointing_->HasRoom()) {
    return;
  }
  checkpointing_->Save(learner_->View(), StateNow(), /*best=*/false);
  printer_->EndLine();
  Log(LogLevel::kInfo, "asked to stop: step " + std::to_string(state_.step) +
                           " is being saved, and the evaluation goes on");
}

// The others' shares may take as long as the own.
Result<void> Trainer::SumAtEnd(std::span<double> sums) {
  std::future<Result<void>> sum =
      std::async(std::launch::async, [this, sums] { return group_->Sum(sums); });
  while (sum.wait_for(kStopLook) != std::future_status::ready) {
    SaveIfAskedToStop();
  }
  return sum.get();
}

Result<void> Trainer::Finish() {
  profiler_.Stop();
  if (IsRankZero() && !config_.run.profile.empty()) {
    printer_->EndLine();
    Log(LogLevel::kInfo, "memory of this rank after the last step: " + MemoryMeasured());
  }
  if (config_.run.no_sync && env_.world_size > 1) {
    heartbeat_.Phase(kEvaluatedPhase);
    RETURN_IF_ERROR(SayHowFarApart());
  }
  ASSIGN_OR_RETURN(const Evaluation train, Evaluate(dataset_.train, /*at_end=*/true));
  ASSIGN_OR_RETURN(const Evaluation test, Evaluate(dataset_.test, /*at_end=*/true));
  if (!IsRankZero()) {
    FinishProfile();
    return {};
  }
  heartbeat_.Phase(kCheckpointPhase);
  state_.finished = true;
  const std::map<std::string, double> validation = ValidationMetrics(state_.metrics);
  state_.metrics = {{"train_loss", train.loss},
                    {"train_samples", dataset_.train.count},
                    {"test_loss", test.loss},
                    {"test_samples", dataset_.test.count}};
  if (dataset_.task.classifies()) {
    state_.metrics["train_accuracy"] = train.accuracy;
    state_.metrics["test_accuracy"] = test.accuracy;
  }
  std::vector<Scalar> curves;
  for (const char* const name : {"train_loss", "test_loss", "train_accuracy", "test_accuracy"}) {
    if (const auto metric = state_.metrics.find(name); metric != state_.metrics.end()) {
      curves.push_back({std::string("end/") + name, metric->second});
    }
  }
  curves_.Append(state_.step, curves);
  state_.metrics.insert(validation.begin(), validation.end());
  if (stopped_early_) {
    state_.metrics[kStoppedEarly] = 1;
  }
  best_ = false;  // Was saved as such.
  RETURN_IF_ERROR(WriteEverything(/*save=*/true));
  FinishProfile();
  return PrintResult(state_);
}

// One after the other, so that each says by itself what is waited for.
Result<void> Trainer::WriteEverything(bool save) {
  const auto last = std::make_shared<const Snapshot>(MakeSnapshot());
  const std::uint64_t bytes = ByteCount(*last);
  const std::string directory = "'" + config_.checkpoint_dir.native() + "'";
  if (save) {  // Before all that a full disk may refuse.
    RETURN_IF_ERROR(
        WaitForDisk({.what = "the last checkpoint (step " + std::to_string(state_.step) +
                             ") is being saved in " + directory,
                     .bytes = 2 * bytes,  // One may be on its way already.
                     .work = [this, last] { return checkpointing_->SaveNow(Snapshot(*last)); }}));
  }
  if (const std::filesystem::path& path = config_.dump_parameters; !path.empty()) {
    RETURN_IF_ERROR(
        WaitForDisk({.what = "the parameters are being written to '" + path.native() + "'",
                     .bytes = bytes,
                     .work = [path, last] { return WriteParameters(path, last->model); }}));
  }
  if (!config_.run.publish.empty()) {
    RETURN_IF_ERROR(WaitForDisk(
        {.what = "the model is being published in '" + config_.run.publish.native() + "'",
         .bytes = 2 * bytes,
         .work = [this, last] { return PublishResult(*last); }}));
  }
  RETURN_IF_ERROR(
      WaitForDisk({.what = "the checkpoints in " + directory + " are being closed", .work = [this] {
                     Result<void> closed = checkpointing_->Close();
                     checkpointing_->End();
                     return closed;
                   }}));
  if (const std::filesystem::path& path = config_.learning.result; !path.empty()) {
    RETURN_IF_ERROR(WaitForDisk({.what = "the result is being written to '" + path.native() + "'",
                                 .work = [this, state = state_] { return WriteResult(state); }}));
  }
  return {};
}

Result<void> Trainer::SayHowFarApart() {
  std::vector<double> distances(env_.world_size, 0);
  ASSIGN_OR_RETURN(distances[env_.rank], learner_->DistanceFromRankZero());
  RETURN_IF_ERROR(group_->Sum(distances));
  if (!IsRankZero()) {
    return {};
  }
  printer_->EndLine();
  for (std::uint32_t rank = 1; rank < env_.world_size; ++rank) {
    char text[120];
    std::snprintf(text, sizeof text,
                  "after %llu steps rank %u's parameters differ from rank 0's by up to %.3g",
                  static_cast<unsigned long long>(state_.step), rank, distances[rank]);
    Log(LogLevel::kInfo, text);
  }
  return {};
}

Result<void> Trainer::WriteResult(const TrainState& state) const {
  const nlohmann::json json = {
      {"model", state.model},          {"dataset", state.dataset},
      {"epochs", state.epoch},         {"steps", state.step},
      {"world_size", env_.world_size}, {"global_batch", state.global_batch},
      {"metrics", state.metrics},      {"hyperparameters", state.hyperparameters}};
  return WriteOutput(kResultFlag, config_.learning.result, {json.dump(2) + "\n"});
}

// Parameters of the best checkpoint where best ones are kept, else the last.
Result<void> Trainer::PublishResult(const Snapshot& last) {
  Snapshot snapshot = last;
  if (config_.run.keep_best) {
    Result<std::optional<LoadedCheckpoint>> best = checkpointing_->LoadBest();
    if (!best && best.error().kind != ErrorKind::kSystem) {  // Still so after a restart.
      return Error{
          ErrorKind::kRefused,
          "the best checkpoint is broken, and nothing was published: " + best.error().message +
              ". The training itself is finished and saved; started again without "
              "--keep-best, it publishes the parameters of the last step"};
    }
    RETURN_IF_ERROR(best);
    if (*best) {
      snapshot = std::move((*best)->snapshot);
    }
  }
  RETURN_IF_ERROR(Publish(RealFileSystem(), config_.run.publish, snapshot.model, snapshot.state));
  Log(LogLevel::kInfo, "published the parameters of step " + std::to_string(snapshot.state.step) +
                           " in " + config_.run.publish.native());
  return {};
}

Result<void> Trainer::PrintResult(const TrainState& state) {
  std::string lines;
  for (const std::string of : {"train", "test"}) {
    const auto metric = [&](const char* name) {
      const auto found = state.metrics.find(of + name);
      return found == state.metrics.end() ? std::nan("") : found->second;
    };
    lines += ScoreLine(of, metric("_accuracy"), metric("_loss"), metric("_samples"));
  }
  return WaitForDisk({.what = "the result is being written to standard output",
                      .bytes = lines.size(),
                      .work = [lines]() -> Result<void> {
                        (void)WriteAll(STDOUT_FILENO, lines, "standard output");
                        return {};
                      }});
}

Result<void> Trainer::SayFinishedBefore(const TrainState& state) {
  if (!IsRankZero()) {
    return {};
  }
  state_ = state;
  RETURN_IF_ERROR(WriteEverything(/*save=*/false));
  Log(LogLevel::kInfo,
      "this training is finished already: " + std::to_string(state.epoch) + " epochs, " +
          std::to_string(state.step) + " steps, in " + config_.checkpoint_dir.string() +
          ". Train on with more --epochs; start afresh with --resume=never or another "
          "--checkpoint-dir. Its result was:");
  return PrintResult(state);
}

}  // namespace ddprun

#include "trainer/results.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/files.h"
#include "common/format.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/safetensors.h"

namespace ddprun {
namespace {

constexpr const char* kResultFlag = "--result";
constexpr const char* kParametersFlag = "--dump-parameters";

// Its name until it is whole; no user has a file of that name.
std::filesystem::path UnfinishedOf(const std::filesystem::path& path) {
  return path.parent_path() / ("." + path.filename().native() + ".ddprun-part");
}

// A rename over it would make a file of /dev/null, for all who use the machine. Errors of the
// directory that can be known are reported before hours of training: it is made, as that of
// checkpoints is.
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
      return SystemError("read the state of the file of " + flag + ",", name.native(), errno);
    }
  }
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  if (const Result<void> made = MakeDirectories(directory, 0777); !made) {
    return Error{made.error().kind, flag + ": " + made.error().message};
  }
  if (::access(directory.c_str(), W_OK | X_OK) != 0) {
    return SystemError("write the file of " + flag + " in", directory.native(), errno);
  }
  if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return Error{ErrorKind::kInvalid,
                 flag + ": '" + path.native() +
                     "' is not an ordinary file, and is not replaced. Set another name"};
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

// Of the metrics whose names begin with `of` and "_".
std::string ScoreLine(const std::string& of, const std::map<std::string, double>& metrics) {
  std::string accuracy;
  std::string loss;
  std::string others;
  std::string samples;
  for (const auto& [metric, value] : metrics) {
    if (!metric.starts_with(of + "_")) {
      continue;
    }
    const std::string name = metric.substr(of.size() + 1);
    if (name == "accuracy") {
      accuracy = Format(" accuracy %.2f%%,", 100 * value);
    } else if (name == "loss") {
      loss = Format(" loss %.4f", value);
    } else if (name == "samples") {
      samples = Format(" (%.0f samples)\n", value);
    } else {
      others += ", " + name + Format(" %.4g", value);
    }
  }
  return samples.empty() ? "" : of + accuracy + loss + others + samples;
}

}  // namespace

Result<void> PrepareOutputs(const TrainConfig& config) {
  RETURN_IF_ERROR(PrepareOutput(kResultFlag, config.learning.result));
  return PrepareOutput(kParametersFlag, config.dump_parameters);
}

Result<void> WriteResult(const std::filesystem::path& path, const TrainState& state,
                         std::uint32_t world_size) {
  const nlohmann::json json = {
      {"model", state.model},     {"dataset", state.dataset},
      {"epochs", state.epoch},    {"steps", state.step},
      {"world_size", world_size}, {"global_batch", state.global_batch},
      {"metrics", state.metrics}, {"hyperparameters", state.hyperparameters}};
  return WriteOutput(kResultFlag, path, {json.dump(2) + "\n"});
}

Result<void> WriteParameters(const std::filesystem::path& path,
                             const std::vector<Tensor>& parameters) {
  const std::string header = SafetensorsHeader(parameters, {{"format", "pt"}});
  return WriteOutput(kParametersFlag, path, SafetensorsParts(header, parameters));
}

std::string ResultLines(const TrainState& state) {
  std::string lines;
  for (const std::string of : {"train", "test", "validation"}) {
    lines += ScoreLine(of, state.metrics);
  }
  return lines;
}

}  // namespace ddprun

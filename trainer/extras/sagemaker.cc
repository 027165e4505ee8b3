#include "trainer/extras/sagemaker.h"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/json.h"
#include "common/text.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;
using Variables = std::map<std::string, std::string>;

constexpr std::size_t kMostJson = 1 << 20;
constexpr std::string_view kHyperparameter = "SM_HP_";

Variables VariablesOf(const char* const* environment) {
  Variables variables;
  for (; *environment != nullptr; ++environment) {
    const std::string text = *environment;
    const std::size_t equals = text.find('=');
    if (text.starts_with("SM_") || text.starts_with("DDPRUN_SAGEMAKER_")) {
      variables[text.substr(0, equals)] = equals == text.npos ? "" : text.substr(equals + 1);
    }
  }
  return variables;
}

// Batch_Size, batch_size and BATCH_SIZE are --batch-size.
std::string FlagName(std::string name) {
  std::ranges::replace(name, '_', '-');
  return Lowercase(name);
}

bool IsPlatforms(const std::string& flag) {
  return flag.starts_with("sagemaker-");
}

// Values are text, or text in JSON's quotes; numbers and booleans as they are.
std::string TextOf(const json& value) {
  if (!value.is_string()) {
    return value.dump();
  }
  const json inner = ParseJson(value.get<std::string>());
  return inner.is_string() ? inner.get<std::string>() : value.get<std::string>();
}

Result<void> AddHyperparameters(const std::string& text, const std::string& source,
                                Variables& values) {
  const json object = ParseJson(text);
  if (!object.is_object()) {
    return Invalid("the hyperparameters are not a JSON object", source);
  }
  for (const auto& [name, value] : object.items()) {
    values[FlagName(name)] = TextOf(value);
  }
  return {};
}

}  // namespace

Result<std::optional<SageMaker>> DetectSageMaker(const char* const* environment) {
  const Variables variables = VariablesOf(environment);
  const auto value = [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
  const bool here = std::any_of(variables.begin(), variables.end(), [](const auto& variable) {
    return variable.first.starts_with("SM_");
  });
  if (!here) {
    return std::optional<SageMaker>();
  }
  SageMaker sagemaker;
  const std::string root = value("DDPRUN_SAGEMAKER_ROOT");
  sagemaker.root = root.empty() ? "/opt/ml" : root;
  Variables flags;
  const fs::path file = sagemaker.root / "input" / "config" / "hyperparameters.json";
  if (const Result<std::string> text = ReadFile(file, kMostJson)) {
    RETURN_IF_ERROR(AddHyperparameters(*text, file.native(), flags));
  } else if (text.error().kind != ErrorKind::kNotFound) {
    return text.error();
  }
  if (const std::string text = value("SM_HPS"); !text.empty()) {
    RETURN_IF_ERROR(AddHyperparameters(text, "SM_HPS", flags));
  }
  for (const auto& [name, text] : variables) {
    if (name.starts_with(kHyperparameter)) {
      flags[FlagName(name.substr(kHyperparameter.size()))] = text;
    }
  }
  const std::string model = value("SM_MODEL_DIR");
  sagemaker.arguments = {
      "--checkpoint-dir=" + (sagemaker.root / "checkpoints").native(),
      "--publish=" + (model.empty() ? (sagemaker.root / "model").native() : model)};
  for (const char* const channel : {"SM_CHANNEL_TRAIN", "SM_CHANNEL_TRAINING"}) {
    if (const std::string data = value(channel); !data.empty()) {
      sagemaker.arguments.push_back("--data-root=" + data);
    }
  }
  for (const auto& [flag, text] : flags) {
    if (!IsPlatforms(flag)) {
      sagemaker.arguments.push_back("--" + flag + "=" + text);
    }
  }
  return std::optional(std::move(sagemaker));
}

// Nobody is left to tell where this fails too.
void WriteFailure(const SageMaker& sagemaker, const std::string& text) {
  const fs::path path = sagemaker.root / "output" / "failure";
  (void)MakeDirectories(path.parent_path(), 0777);
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd) {
    (void)WriteAll(fd.get(), text + "\n", path);
  }
}

}  // namespace ddprun

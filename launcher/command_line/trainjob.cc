#include "launcher/command_line/trainjob.h"

namespace ddprun {
namespace {

constexpr const char* kUrl = "KUBEFLOW_TRAINER_SERVER_URL";
constexpr const char* kAuthority = "KUBEFLOW_TRAINER_SERVER_CA_CERT";
constexpr const char* kTokenFile = "KUBEFLOW_TRAINER_SERVER_TOKEN";

}  // namespace

bool IsForTrainJobProgress(std::string_view variable) {
  return variable == kUrl || variable == kAuthority || variable == kTokenFile;
}

void CheckTrainJobProgress(const RawFlags& raw, Problems& problems) {
  const std::string& word = raw.trainjob_progress;
  if (word != "auto" && word != "on" && word != "off") {
    problems.Add("--trainjob-progress must be auto, on or off: '" + word + "'");
  }
}

TrainJobServer TrainJobServerOf(const RawFlags& raw, const GetEnv& get_env) {
  const auto text = [&](const char* name) { return get_env(name).value_or(""); };
  if (raw.trainjob_progress == "off" || text(kUrl).empty()) {
    return {};
  }
  return {text(kUrl), text(kAuthority), text(kTokenFile), raw.trainjob_progress == "on"};
}

}  // namespace ddprun

#include "trainer/run_options.h"

#include <CLI/CLI.hpp>

namespace ddprun {

void AddRunOptions(CLI::App& app, RunOptions& options) {
  app.add_option("--validate-every", options.validate_every,
                 "Steps between validations, all ranks together (0: none)")
      ->capture_default_str();
  app.add_option("--validation-samples", options.validation_samples,
                 "Validate on the last N training samples and do not train on them; 0: on the "
                 "test set")
      ->capture_default_str();
  app.add_flag("--keep-best", options.keep_best,
               "Keep the checkpoint with the least validation loss, named by best.json");
  app.add_option("--early-stop", options.early_stop,
                 "End after so many validations in a row without a gain (0: never)")
      ->capture_default_str();
  app.add_option("--publish", options.publish,
                 "At the end write model.safetensors (parameters only; the best with --keep-best) "
                 "and model.json to this directory");
  app.add_option("--init-from", options.init_from,
                 "Begin with the parameters in this safetensors file");
  app.add_option("--init-strict", options.init_strict,
                 "yes: the file must hold exactly this model's parameters; no: take those that "
                 "fit and say which do not")
      ->capture_default_str();
  app.add_option("--freeze", options.freeze,
                 "Do not train parameters whose names begin with one of these")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--profile", options.profile,
                 "Record operators and write a trace per rank to this directory");
  app.add_option("--profile-schedule", options.profile_schedule,
                 "Steps to wait, to warm up, to record, and how often: wait,warmup,active[,repeat]")
      ->capture_default_str();
}

void CheckRunOptions(const RunOptions& options, std::vector<std::string>& problems) {
  const auto in_range = [&](const char* flag, std::int64_t value) {
    if (value < 0 || value > INT32_MAX) {
      problems.push_back(std::string(flag) + " must be 0 or more, not " + std::to_string(value));
    }
  };
  in_range("--validate-every", options.validate_every);
  in_range("--validation-samples", options.validation_samples);
  in_range("--early-stop", options.early_stop);
  if (options.validate_every == 0) {
    const auto needs = [&](bool given, const char* flag) {
      if (given) {
        problems.push_back(std::string(flag) + " needs --validate-every");
      }
    };
    needs(options.keep_best, "--keep-best");
    needs(options.early_stop > 0, "--early-stop");
    needs(options.validation_samples > 0, "--validation-samples");
  }
  if (options.init_strict != "yes" && options.init_strict != "no") {
    problems.push_back("--init-strict must be yes or no, not '" + options.init_strict + "'");
  }
  if (!ParseProfileSchedule(options.profile_schedule)) {
    problems.push_back(
        "--profile-schedule must be wait,warmup,active[,repeat] with one active "
        "step at least, not '" +
        options.profile_schedule + "'");
  }
}

void FinishRunOptions(RunOptions& options) {
  options.schedule = *ParseProfileSchedule(options.profile_schedule);
}

}  // namespace ddprun

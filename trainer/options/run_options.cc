#include "trainer/options/run_options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "common/text.h"
#include "trainer/options/command_line.h"

namespace ddprun {
namespace {

constexpr std::uint32_t kMostSkew = 3'600'000;

}  // namespace

std::optional<std::vector<Skew>> ParseSkews(const std::string& text) {
  std::vector<Skew> skews;
  for (const std::string& part : Split(text, ',')) {
    const std::size_t colon = part.find(':');
    const auto rank = ParseNumber<std::uint32_t>(part.substr(0, colon));
    const auto milliseconds =
        ParseNumber<std::uint32_t>(colon == part.npos ? "" : part.substr(colon + 1));
    if (!rank || !milliseconds || *milliseconds > kMostSkew) {
      return std::nullopt;
    }
    skews.push_back({*rank, std::chrono::milliseconds(*milliseconds)});
  }
  return text.ends_with(',') ? std::nullopt : std::optional(std::move(skews));
}

void AddRunOptions(CLI::App& app, RunOptions& options) {
  app.add_option("--validate-every", options.validate_every,
                 "Steps between validations, all ranks together (0: none)");
  app.add_option("--validation-samples", options.validation_samples,
                 "Validate on the last N training samples and do not train on them; 0: on the "
                 "test set");
  app.add_flag("--keep-best", options.keep_best,
               "Keep the checkpoint with the least validation loss, named by best.json");
  app.add_option("--early-stop", options.early_stop,
                 "End after so many validations in a row without a gain (0: never)");
  app.add_option("--eval-package", options.eval_package,
                 "Evaluate with this AOTInductor package of the model, made in Python. It is code "
                 "that runs here: use only one that you trust");
  app.add_option("--publish", options.publish,
                 "At the end write model.safetensors (parameters only; the best with --keep-best) "
                 "and model.json to this directory");
  app.add_option("--init-from", options.init_from,
                 "Begin with the parameters in this safetensors file");
  app.add_option("--init-strict", options.init_strict,
                 "yes: the file must hold exactly this model's parameters; no: load those that fit "
                 "and report the others");
  app.add_option("--freeze", options.freeze,
                 "Do not train parameters whose names begin with one of these")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->default_str("");
  app.add_option("--split-devices", options.split_devices,
                 "Put the first part of the model on the first of these devices, the second on the "
                 "second: cpu,cpu or cuda:0,cuda:1")
      ->delimiter(',')
      ->default_str("");
  app.add_option("--tensorboard", options.tensorboard,
                 "Write the curves of the training to event files in this directory, for "
                 "TensorBoard; a restart begins a new file");
  app.add_option("--profile", options.profile,
                 "Record operators and write a trace per rank to this directory");
  app.add_option(
      "--profile-schedule", options.profile_schedule,
      "Steps to wait, to warm up, to record, and how often: wait,warmup,active[,repeat]");
  app.add_option("--skew", options.skew,
                 "RANK:MILLISECONDS,...: make these ranks slower by that much in every step, to "
                 "see the effect on the others");
  app.add_option("--memory-snapshots", options.memory_snapshots,
                 "yes: also keep the state in memory with ddprun, so that a restart continues from "
                 "there; no: restarts continue only from checkpoints");
  app.add_flag("--no-sync", options.no_sync,
               "Do not average gradients over the ranks, to see how far their models diverge");
}

void CheckRunOptions(std::vector<std::string>& problems, const RunOptions& options) {
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
  const auto is_answer = [](const std::string& text) { return text == "yes" || text == "no"; };
  CheckWord(problems, is_answer(options.init_strict), "--init-strict", "yes or no",
            options.init_strict);
  CheckWord(problems, is_answer(options.memory_snapshots), "--memory-snapshots", "yes or no",
            options.memory_snapshots);
  CheckWord(problems, ParseProfileSchedule(options.profile_schedule).has_value(),
            "--profile-schedule", "wait,warmup,active[,repeat] with one active step at least",
            options.profile_schedule);
  CheckWord(problems, ParseSkews(options.skew).has_value(), "--skew",
            "RANK:MILLISECONDS,... with at most 3600000 milliseconds", options.skew);
}

}  // namespace ddprun

#include "trainer/shared_settings.h"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/json.h"
#include "common/text.h"

namespace ddprun {
namespace {

constexpr const char* kVerdict = "settings/verdict";
constexpr const char* kEqual = "equal";  // Stores may refuse an empty text.
constexpr std::size_t kNamed = 3;        // Ranks; the others are counted.

std::string BoardKey(const char* what, std::size_t rank) {
  return "settings/" + std::string(what) + "/" + std::to_string(rank);
}

// The shortest text that is this number again: "0.1", "100000".
std::string NumberText(double number) {
  std::array<char, 400> text;  // Of the least one.
  const auto end = text.data() + text.size();
  return {text.data(), std::to_chars(text.data(), end, number, std::chars_format::fixed).ptr};
}

std::string YesNo(bool value) {
  return value ? "yes" : "no";
}

}  // namespace

std::map<std::string, std::string> HyperparametersOf(const TrainConfig& config) {
  const LearningOptions& learning = config.learning;
  std::map<std::string, std::string> values = {
      {"optimizer", config.optimizer},
      {"lr", NumberText(config.lr)},
      {"scale_lr", YesNo(config.scale_lr)},
      {"weight_decay", NumberText(config.optimizer_options.weight_decay)},
      {"momentum", NumberText(config.optimizer_options.momentum)},
      {"nesterov", YesNo(config.optimizer_options.nesterov)},
      {"micro_batch", std::to_string(config.micro_batch)},
      {"drop_last", YesNo(learning.drop_last)},
      {"schedule", learning.schedule},
      {"warmup_steps", std::to_string(learning.warmup_steps)},
      {"decay_every", std::to_string(learning.decay_every)},
      {"decay_factor", NumberText(learning.decay_factor)},
      {"clip_norm", learning.clip_norm ? NumberText(*learning.clip_norm) : "none"},
      {"autocast", learning.autocast},
      {"compress", learning.compress},
      {"model_arguments", config.model_arguments.Text()},
      {"data_arguments", config.data_arguments.Text()},
      {"validation_samples", std::to_string(config.run.validation_samples)},
      {"limit_train", config.limit_train ? std::to_string(*config.limit_train) : "none"},
      {"loss", learning.loss},
      {"no_sync", YesNo(config.run.no_sync)},
  };
  if (config.own_model) {  // These flags are not the program's.
    for (const char* const name :
         {"optimizer", "lr", "weight_decay", "momentum", "nesterov", "clip_norm", "data_arguments",
          "validation_samples", "loss", "model_arguments"}) {
      values.erase(name);
    }
    values["program_flags"] = config.program_arguments;
  }
  return values;
}

SharedSettings SharedSettingsOf(const TrainConfig& config) {
  const RunOptions& run = config.run;
  SharedSettings settings = {
      {"the version of ddprun-train", DDPRUN_VERSION},
      {"--model", config.model},
      {"--dataset", config.dataset},
      {"--epochs", std::to_string(config.epochs)},
      {"--batch", std::to_string(config.batch)},
      {"continuing from memory (--memory-snapshots, --resume)", YesNo(config.GoesOnFromMemory())},
      {"--seed", std::to_string(config.seed)},
      {"--bucket-mib", NumberText(config.bucket_mib)},
      {"--backend", config.backend},
      {"--validate-every", std::to_string(run.validate_every)},
      {"--freeze", run.freeze.empty() ? "none" : Joined(run.freeze, ",")},
      {"--keep-best", YesNo(run.keep_best)},
      {"--grad-norm", YesNo(config.learning.grad_norm)},
      {"--deterministic", YesNo(config.learning.deterministic)},
      {"--cuda-graph", YesNo(config.learning.cuda_graph)},
      // Each rank may have devices of its own, but the same parts.
      {"the number of --split-devices", std::to_string(run.split_devices.size())}};
  const std::map<std::string, std::string> kept = HyperparametersOf(config);
  for (const Hyperparameter& parameter : kHyperparameters) {
    if (const auto found = kept.find(parameter.name); found != kept.end()) {
      settings[parameter.words] = found->second;
    }
  }
  return settings;
}

std::string Difference(const SharedSettings& first, const SharedSettings& mine, std::size_t rank) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& here, const std::string& there) {
    text += (text.empty() ? "" : "; ") + name + " is " + here + " on rank " + std::to_string(rank) +
            ", " + there + " on rank 0";
  };
  for (const auto& [name, value] : mine) {
    const auto found = first.find(name);
    if (found == first.end() || found->second != value) {
      add(name, value, found == first.end() ? "unknown" : found->second);
    }
  }
  for (const auto& [name, value] : first) {
    if (!mine.contains(name)) {
      add(name, "unknown", value);
    }
  }
  return text;
}

namespace {

std::string ToText(const SharedSettings& settings) {
  return nlohmann::json(settings).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

SharedSettings FromText(const std::string& text) {
  SharedSettings settings;
  const nlohmann::json in = ParseJson(text);
  if (in.is_object()) {
    for (const auto& [name, value] : in.items()) {
      settings[name] = value.is_string() ? value.get<std::string>() : "no text";
    }
  }
  return settings;
}

// How the ranks differ from rank 0. Empty: they do not.
std::string Differences(const std::vector<SharedSettings>& ranks) {
  std::string text;
  std::size_t others = 0;
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const std::string difference = Difference(ranks[0], ranks[rank], rank);
    if (!difference.empty() && ++others <= kNamed) {
      text += (text.empty() ? "" : "; ") + difference;
    }
  }
  return others <= kNamed
             ? text
             : text + "; and " + std::to_string(others - kNamed) + " more ranks differ";
}

Error NotAlike(const std::string& verdict) {
  return {ErrorKind::kRefused, "the ranks were started with different settings: " + verdict +
                                   ". All ranks of a training need the same; nothing was trained "
                                   "[ranks-differ]"};
}

// Rank 0 hears all ranks, so that all know of one.
Result<std::string> Judge(Board& board, const SharedSettings& settings, std::size_t size) {
  // Text that is not UTF-8 is replaced, as in the others'.
  std::vector<SharedSettings> all = {FromText(ToText(settings))};
  for (std::size_t rank = 1; rank < size; ++rank) {
    ASSIGN_OR_RETURN(const std::string text, board.Get(BoardKey("of", rank)));
    all.push_back(FromText(text));
  }
  const std::string differences = Differences(all);
  const std::string verdict = differences.empty() ? kEqual : differences;
  RETURN_IF_ERROR(board.Set(kVerdict, verdict));
  for (std::size_t rank = 1; verdict != kEqual && rank < size; ++rank) {
    RETURN_IF_ERROR(board.Get(BoardKey("heard", rank)));  // The board may be mine, and end with me.
  }
  return verdict;
}

Result<std::string> Submit(Board& board, const SharedSettings& settings, std::size_t rank) {
  RETURN_IF_ERROR(board.Set(BoardKey("of", rank), ToText(settings)));
  ASSIGN_OR_RETURN(std::string verdict, board.Get(kVerdict));
  RETURN_IF_ERROR(board.Set(BoardKey("heard", rank), "yes"));
  return verdict;
}

}  // namespace

Result<void> AgreeOnSettings(Board& board, const SharedSettings& settings, std::size_t rank,
                             std::size_t size) {
  if (size == 1) {
    return {};
  }
  ASSIGN_OR_RETURN(const std::string verdict,
                   rank == 0 ? Judge(board, settings, size) : Submit(board, settings, rank));
  return verdict == kEqual ? Result<void>() : NotAlike(verdict);
}

Result<void> AgreeOnSamples(std::span<const double> counts) {
  std::vector<SharedSettings> all;
  for (std::size_t i = 0; i < counts.size(); i += 2) {
    all.push_back({{"the number of training samples", NumberText(counts[i])},
                   {"the number of test samples", NumberText(counts[i + 1])}});
  }
  const std::string differences = Differences(all);
  return differences.empty() ? Result<void>() : NotAlike(differences);
}

}  // namespace ddprun

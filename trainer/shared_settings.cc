#include "trainer/shared_settings.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/json.h"
#include "common/text.h"

namespace ddprun {
namespace {

constexpr const char* kFirst = "settings";
constexpr const char* kVerdict = "settings/verdict";
constexpr const char* kEqual = "equal";  // Stores may refuse an empty text.
constexpr std::size_t kNamed = 3;        // Ranks; the others are counted.

std::string BoardKey(const char* what, std::size_t rank) {
  return "settings/" + std::string(what) + "/" + std::to_string(rank);
}

// Short where that is exact: "0.01", not "0.0100000000000000002".
std::string Text(double value) {
  char text[40];
  for (const int digits : {6, 17}) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::stod(text) == value) {
      break;
    }
  }
  return text;
}

std::string Text(const std::optional<double>& value) {
  return value ? Text(*value) : "off";
}

std::string Text(bool value) {
  return value ? "on" : "off";
}

void AddLearning(SharedSettings& settings, const LearningOptions& options) {
  settings.insert({{"--schedule", options.schedule},
                   {"--warmup-steps", std::to_string(options.warmup_steps)},
                   {"--decay-every", std::to_string(options.decay_every)},
                   {"--decay-factor", Text(options.decay_factor)},
                   {"--clip-norm", Text(options.clip_norm)},
                   {"--grad-norm", Text(options.grad_norm)},
                   {"--drop-last", Text(options.drop_last)},
                   {"--autocast", options.autocast},
                   {"--compress", options.compress},
                   {"--loss", options.loss},
                   {"--deterministic", Text(options.deterministic)},
                   {"--cuda-graph", Text(options.cuda_graph)}});
}

}  // namespace

SharedSettings SharedSettingsOf(const TrainConfig& config) {
  const RunOptions& run = config.run;
  SharedSettings settings = {
      {"the version of ddprun-train", DDPRUN_VERSION},
      {"--model", config.model},
      {"--model-arg", config.model_arguments.Text()},
      {"--dataset", config.dataset},
      {"--data-arg", config.data_arguments.Text()},
      {"--validation-samples", std::to_string(run.validation_samples)},
      {"--epochs", std::to_string(config.epochs)},
      {"--batch", std::to_string(config.batch)},
      {"--micro-batch", std::to_string(config.micro_batch)},
      {"continuing from memory (--memory-snapshots, --resume)", Text(config.GoesOnFromMemory())},
      {"--seed", std::to_string(config.seed)},
      {"--optimizer", config.optimizer},
      {"--lr", Text(config.lr)},
      {"--scale-lr", Text(config.scale_lr)},
      {"--weight-decay", Text(config.optimizer_options.weight_decay)},
      {"--momentum", Text(config.momentum)},
      {"--nesterov", Text(config.nesterov)},
      {"--bucket-mib", Text(config.bucket_mib)},
      {"--backend", config.backend},
      {"--validate-every", std::to_string(run.validate_every)},
      {"--freeze", run.freeze.empty() ? "none" : Joined(run.freeze, ",")},
      {"--no-sync", Text(run.no_sync)},
      {"--keep-best", Text(run.keep_best)},
      // Each rank may have devices of its own, but the same parts.
      {"the number of --split-devices", std::to_string(run.split_devices.size())}};
  AddLearning(settings, config.learning);
  if (config.own_model) {
    settings["the value of the program's flags"] = config.program_arguments;
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

class Verdict {
 public:
  void Add(const std::string& difference) {
    if (!difference.empty() && ++others_ <= kNamed) {
      text_ += (text_.empty() ? "" : "; ") + difference;
    }
  }
  // Empty: all are equal.
  std::string Text() const {
    return others_ <= kNamed
               ? text_
               : text_ + "; and " + std::to_string(others_ - kNamed) + " more ranks differ";
  }

 private:
  std::string text_;
  std::size_t others_ = 0;
};

Error NotAlike(const std::string& verdict) {
  return {ErrorKind::kRefused, "the ranks were started with different settings: " + verdict +
                                   ". All ranks of a training need the same; nothing was trained "
                                   "[ranks-differ]"};
}

// Rank 0 hears all ranks, so that all know of one.
Result<std::string> Judge(Board& board, const SharedSettings& settings, std::size_t size) {
  RETURN_IF_ERROR(board.Set(kFirst, ToText(settings)));
  Verdict all;
  for (std::size_t rank = 1; rank < size; ++rank) {
    ASSIGN_OR_RETURN(const std::string difference, board.Get(BoardKey("difference", rank)));
    all.Add(difference == kEqual ? "" : difference);
  }
  const std::string verdict = all.Text().empty() ? kEqual : all.Text();
  RETURN_IF_ERROR(board.Set(kVerdict, verdict));
  for (std::size_t rank = 1; verdict != kEqual && rank < size; ++rank) {
    RETURN_IF_ERROR(board.Get(BoardKey("heard", rank)));  // The board may be mine, and end with me.
  }
  return verdict;
}

Result<std::string> Compare(Board& board, const SharedSettings& settings, std::size_t rank) {
  ASSIGN_OR_RETURN(const std::string first, board.Get(kFirst));
  // Text that is not UTF-8 is replaced on both sides.
  const std::string difference = Difference(FromText(first), FromText(ToText(settings)), rank);
  RETURN_IF_ERROR(
      board.Set(BoardKey("difference", rank), difference.empty() ? kEqual : difference));
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
                   rank == 0 ? Judge(board, settings, size) : Compare(board, settings, rank));
  return verdict == kEqual ? Result<void>() : NotAlike(verdict);
}

Result<void> AgreeOnSamples(std::span<const double> counts) {
  const auto of = [&](std::size_t rank) {
    return SharedSettings{{"the number of training samples", Text(counts[2 * rank])},
                          {"the number of test samples", Text(counts[2 * rank + 1])}};
  };
  Verdict all;
  for (std::size_t rank = 1; 2 * rank < counts.size(); ++rank) {
    all.Add(Difference(of(0), of(rank), rank));
  }
  return all.Text().empty() ? Result<void>() : NotAlike(all.Text());
}

}  // namespace ddprun

#include "trainer/start_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/json.h"
#include "common/text.h"
#include "trainer/checkpoint/memory_start.h"
#include "trainer/learning/early_stopping.h"
#include "trainer/shared_settings.h"

namespace ddprun {
namespace {

constexpr std::string_view kWhatToDo =
    ". Set the same, another --checkpoint-dir, or --resume=never to start afresh in this one "
    "(--init-from: with parameters of the checkpoint)";
constexpr const char* kUnknown = "unknown";
constexpr std::size_t kMostShown = 200;  // A model may have hundreds of frozen parameters.

constexpr std::uint64_t kMaxGlobalBatch = std::uint64_t{1} << 40;

std::string ValueIn(const TrainState& state, const std::string& name) {
  const auto found = state.hyperparameters.find(name);
  if (found != state.hyperparameters.end()) {
    return found->second;
  }
  // As before there was a choice.
  return name == "loss"          ? "auto"
         : name == "no_sync"     ? "no"
         : name == "drop_last"   ? "no"
         : name == "limit_train" ? "none"  // Of a program.
                                 : kUnknown;
}

// Earlier releases wrote 0.1 with 17 digits.
bool IsSame(const std::string& before, const std::string& now) {
  const auto number = ParseNumber<double>(now);
  return before == now || (number && ParseNumber<double>(before) == number);
}

// Long values are shown from the word on in which they differ.
Error Differs(const std::string& what, const std::string& saved, const std::string& asked) {
  const auto same =
      static_cast<std::size_t>(std::ranges::mismatch(saved, asked).in1 - saved.begin());
  const std::size_t begin = same < kMostShown / 2 ? 0 : saved.find_last_of(" ,", same - 1) + 1;
  const auto shown = [begin](const std::string& value) {
    return (begin > 0 ? "..." : "") + Shortened(value.substr(begin), kMostShown);
  };
  return {ErrorKind::kInvalid, "the checkpoint is of another training: " + what + " " +
                                   shown(saved) + ", not " + shown(asked) + std::string(kWhatToDo)};
}

// A restart of the run that wrote it, as opposed to a new run of the same name.
bool WrittenBy(const Writer& writer, const TrainState& state) {
  return state.run_id == writer.run_id && state.generation < writer.generation;
}

// Whether the state counts, and the start then.
bool StartFromMemory(const TrainConfig& config, const CheckpointStore& store,
                     const TrainState& asked, const Remembered& remembered, ChosenStart& start) {
  const TrainState& state = remembered.state;
  const auto found = state.metrics.find(kBestStep);
  const std::optional<std::uint64_t> best =
      config.run.keep_best && found != state.metrics.end()
          ? std::optional(static_cast<std::uint64_t>(found->second))
          : std::nullopt;
  const DiskHead disk{store.head(), store.best()};
  const std::optional<MadeBy> made = disk.head ? WhoMade(disk.head->directory) : std::nullopt;
  const bool same =
      state.model == asked.model && state.model_description == asked.model_description;
  const std::optional<std::string> why_not =
      same ? WhyNotFromMemory(state, best, store.writer(), disk) : "it belongs to another model";
  if (why_not) {
    if (!made || made->step < state.step) {  // Else it is only older.
      start.plan.notes.push_back("the state of step " + std::to_string(state.step) +
                                 " in memory is not used: " + *why_not);
    }
    return false;
  }
  std::vector<std::string> notes;
  Result<TrainState> goes_on = ContinueFrom(state, asked, notes);
  if (!goes_on) {
    return false;  // The disk has the same training, and says why it cannot continue.
  }
  start.plan = {.kind = StartKind::kFromMemory,
                .state = *std::move(goes_on),
                .state_from = remembered.rank,
                .notes = std::move(notes)};
  if (made) {
    start.last_saved = made->step;
  }
  start.plan.notes.push_back(
      "continuing from memory, where rank " + std::to_string(remembered.rank) +
      " has the newest state; the newest checkpoint is " +
      (start.last_saved ? "of step " + std::to_string(*start.last_saved) : "none"));
  return true;
}

Result<void> StartFromDisk(const TrainConfig& config, CheckpointStore& store,
                           const TrainState& asked, ChosenStart& start) {
  StartPlan& plan = start.plan;
  Result<LoadOutcome> outcome = store.Load();
  const bool found = outcome && outcome->checkpoint;
  if (config.resume == "never" &&
      !(found && WrittenBy(store.writer(), outcome->checkpoint->snapshot.state))) {
    store.StartAfresh();
    outcome = LoadOutcome{};
  }
  if (!outcome) {
    return std::move(outcome).error();
  }
  plan.notes.insert(plan.notes.end(), outcome->warnings.begin(), outcome->warnings.end());
  if (outcome->checkpoint) {
    Snapshot& snapshot = outcome->checkpoint->snapshot;
    ASSIGN_OR_RETURN(plan.state, ContinueFrom(snapshot.state, asked, plan.notes));
    plan.kind = StartKind::kResume;
    const bool early = config.run.early_stop > 0 && plan.state.metrics.count(kStoppedEarly) > 0;
    if (plan.state.finished &&
        (early || plan.state.epoch >= static_cast<std::uint64_t>(config.epochs))) {
      plan.kind = StartKind::kFinished;
    }
    start.last_saved = snapshot.state.step;
    start.loaded = std::move(snapshot);
  } else if (config.resume == "must") {
    return Error{ErrorKind::kInvalid, "--resume=must, but there is no checkpoint in '" +
                                          config.checkpoint_dir.string() + "' [no-checkpoint]"};
  }
  return {};
}

}  // namespace

std::string ToText(const StartPlan& plan) {
  nlohmann::json json = {{"kind", static_cast<int>(plan.kind)},
                         {"state", ToJson(StateFile{plan.state, {}})},
                         {"state_from", plan.state_from},
                         {"notes", plan.notes}};
  if (plan.refusal) {
    json["refusal"] = {{"kind", static_cast<int>(plan.refusal->kind)},
                       {"message", plan.refusal->message}};
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<StartPlan> StartPlanFromText(std::string_view text) {
  StartPlan plan;
  try {
    // Of this very version: AgreeOnSettings has compared it.
    const nlohmann::json json = ParseJson(text);
    plan.kind = static_cast<StartKind>(json.at("kind").get<int>());
    plan.state_from = json.at("state_from").get<std::uint32_t>();
    plan.notes = json.at("notes").get<std::vector<std::string>>();
    if (json.contains("refusal")) {
      plan.refusal = Error{static_cast<ErrorKind>(json.at("refusal").at("kind").get<int>()),
                           json.at("refusal").at("message").get<std::string>()};
    }
    ASSIGN_OR_RETURN(StateFile file,
                     StateFileFromJson(json.at("state").get<std::string>(), "rank 0's plan"));
    plan.state = std::move(file.state);
  } catch (const nlohmann::json::exception& error) {
    return Error{ErrorKind::kInvalid, std::string("rank 0 sent an invalid plan: ") + error.what()};
  }
  return plan;
}

TrainState FreshState(const TrainConfig& config, std::uint32_t world_size,
                      const std::string& model_description) {
  TrainState state;
  state.model = config.model;
  state.model_description = model_description;
  state.dataset = config.dataset;
  state.seed = static_cast<std::uint64_t>(config.seed);
  state.world_size = world_size;
  state.rank_batch = static_cast<std::uint64_t>(config.batch);
  state.global_batch = state.rank_batch * world_size;
  state.hyperparameters = HyperparametersOf(config);
  state.versions = {{"ddprun", DDPRUN_VERSION}, {"libtorch", DDPRUN_LIBTORCH_VERSION}};
  return state;
}

Result<TrainState> ContinueFrom(const TrainState& saved, const TrainState& asked,
                                std::vector<std::string>& notes) {
  if (saved.dataset != asked.dataset) {
    return Differs("--dataset", saved.dataset, asked.dataset);
  }
  if (saved.seed != asked.seed) {
    return Differs("--seed", std::to_string(saved.seed), std::to_string(asked.seed));
  }
  for (const Hyperparameter& parameter : kHyperparameters) {
    const std::string before = ValueIn(saved, parameter.name);
    const std::string now = ValueIn(asked, parameter.name);
    if (IsSame(before, now)) {
      continue;
    }
    if (!parameter.fixed) {
      notes.push_back(std::string(parameter.words) + " changes from " + before + " to " + now);
    } else if (before != kUnknown) {
      return Differs(parameter.words, before, now);
    }
  }
  if (saved.global_batch == 0 || saved.global_batch > kMaxGlobalBatch) {
    return Invalid("the checkpoint's global batch is not valid",
                   std::to_string(saved.global_batch));
  }
  TrainState state = asked;
  state.step = saved.step;
  state.epoch = saved.epoch;
  state.samples_in_epoch = saved.samples_in_epoch;
  if (saved.model_description == asked.model_description) {
    state.buckets = saved.buckets;  // They number the parameters in their order.
  }
  state.finished = saved.finished;
  state.loss = saved.loss;
  state.metrics = saved.metrics;
  const std::string backend_before = ValueIn(saved, "backend");
  const std::string backend = ValueIn(asked, "backend");
  if (asked.world_size > 2 && saved.world_size > 2 && backend_before != backend) {
    notes.push_back("sums over the ranks are formed by " + backend + ", before by " +
                    backend_before + ": from here on they are rounded in another order");
  }
  if (saved.global_batch == asked.global_batch) {
    return state;
  }
  if (saved.rank_batch != asked.rank_batch) {
    notes.push_back("the global batch changes from " + std::to_string(saved.global_batch) + " to " +
                    std::to_string(asked.global_batch) + " samples (--batch changed from " +
                    std::to_string(saved.rank_batch) + " to " + std::to_string(asked.rank_batch) +
                    ")");
  } else {
    state.global_batch = saved.global_batch;
    notes.push_back("the world has " + std::to_string(asked.world_size) +
                    (asked.world_size == 1 ? " rank" : " ranks") + " instead of " +
                    std::to_string(saved.world_size) + "; the global batch stays " +
                    std::to_string(saved.global_batch) + " samples, dealt out evenly");
  }
  return state;
}

Result<ChosenStart> ChooseStart(const TrainConfig& config, CheckpointStore& store,
                                const TrainState& asked,
                                const std::optional<Remembered>& remembered) {
  ChosenStart start;
  start.plan.state = asked;
  if (!remembered || !StartFromMemory(config, store, asked, *remembered, start)) {
    RETURN_IF_ERROR(StartFromDisk(config, store, asked, start));
  }
  const Writer& writer = store.writer();
  TrainState& state = start.plan.state;
  state.run_id = writer.run_id;
  state.term = writer.term;
  state.generation = writer.generation;
  state.world_id = writer.world_id;
  state.parent = store.head() ? store.head()->directory : "";
  return start;
}

}  // namespace ddprun

#include "launcher/kubernetes/trainjob_status.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "launcher/headline.h"

namespace ddprun {
namespace {

bool Succeeded(const RunStatus& run) {
  return !run.outcome.empty() && run.exit_code == 0;
}

std::string Short(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

}  // namespace

// The lowest that a node tells by its own word: one of whom only a few ranks speak tells for all.
std::uint64_t StepOf(const RunStatus& run) {
  std::uint64_t step = 0;
  for (const NodeStatus& node : run.nodes) {
    if (node.in_world && node.step > 0 && node.step_source.empty()) {
      step = step == 0 ? node.step : std::min(step, node.step);
    }
  }
  return step == 0 && !run.training.empty() ? run.training.back().step : step;
}

std::optional<TrainJobStatus> TrainJobStatusOf(const RunStatus& run, std::uint64_t step,
                                               bool always) {
  if (run.steps == 0 && !always) {
    return {};
  }
  constexpr double kNotDone = 99;  // Steps are over before the run is: it may save yet.
  const double share = static_cast<double>(step) / static_cast<double>(run.steps);
  TrainJobStatus status;
  if (Succeeded(run)) {
    status.percentage = 100;
    status.remaining_seconds = 0;
  } else if (run.steps > 0) {
    status.percentage = static_cast<std::uint32_t>(std::min(std::floor(100 * share), kNotDone));
    const double left = UsualStep(run) * static_cast<double>(run.steps - std::min(run.steps, step));
    if (step > 0 && UsualStep(run) > 0 && left < INT32_MAX && run.outcome.empty()) {
      status.remaining_seconds = static_cast<std::uint32_t>(std::ceil(left));
    }
  }
  const auto add = [&](const char* name, std::string value) {
    status.metrics.emplace_back(name, std::move(value));
  };
  if (step > 0) {
    add("step", std::to_string(step));
  }
  if (run.steps > 0) {
    add("total_steps", std::to_string(run.steps));
  }
  if (!run.training.empty()) {
    const TrainingPoint& point = run.training.back();
    if (point.loss) {
      add("loss", Short(*point.loss));
    }
    if (point.samples_per_s) {
      add("samples_per_second", Short(*point.samples_per_s));
    }
    if (point.checkpoint) {
      add("checkpoint_step", std::to_string(*point.checkpoint));
    }
  }
  add("world_size", std::to_string(run.world_size));
  add("restarts", std::to_string(run.restarts_used));
  return status;
}

std::string InJson(const TrainJobStatus& status, std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  std::array<char, 32> time{};
  ::gmtime_r(&seconds, &parts);
  std::strftime(time.data(), time.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  nlohmann::json told{{"lastUpdatedTime", time.data()}, {"metrics", nlohmann::json::array()}};
  if (status.percentage) {
    told["progressPercentage"] = *status.percentage;
  }
  if (status.remaining_seconds) {
    told["estimatedRemainingSeconds"] = *status.remaining_seconds;
  }
  for (const auto& [name, value] : status.metrics) {
    told["metrics"].push_back({{"name", name}, {"value", value}});
  }
  return nlohmann::json{{"trainerStatus", std::move(told)}}.dump();
}

}  // namespace ddprun

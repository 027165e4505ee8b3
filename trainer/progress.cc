#include "trainer/progress.h"

#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/format.h"
#include "common/log.h"
#include "common/wall_clock.h"
#include "trainer/profiler/memory.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;

std::string Rate(double per_second) {
  return per_second >= 1e6   ? Format("%.1fM", per_second / 1e6)
         : per_second >= 1e4 ? Format("%.0fk", per_second / 1e3)
         : per_second >= 1e3 ? Format("%.1fk", per_second / 1e3)
                             : Format("%.0f", per_second);
}

std::string TimeLeft(double seconds) {
  if (!(seconds >= 0 && seconds < 1e7)) {
    return "?";
  }
  const long whole = std::lround(seconds);
  return whole >= 3600 ? Format("%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60)
                       : Format("%ld:%02ld", whole / 60, whole % 60);
}

}  // namespace

std::string ProgressLine(const ProgressPoint& point) {
  std::string line = "epoch " + std::to_string(point.epoch + 1) + "/" +
                     std::to_string(point.epochs) + " step " + std::to_string(point.step) + "/" +
                     std::to_string(point.total_steps) + Format(" loss %.4f ", point.loss);
  if (std::isfinite(point.accuracy)) {
    line += Format("acc %.1f%% ", 100 * point.accuracy);
  }
  for (const auto& [name, value] : point.others) {
    line += name + Format(" %.4g ", value);
  }
  if (point.gradient_norm) {
    line += Format("norm %.3g ", *point.gradient_norm);
  }
  if (std::isfinite(point.lr)) {
    line += Format("lr %.1e ", point.lr);
  }
  line += Rate(point.samples_per_second) + " samples/s ";
  if (point.ranks > 1) {
    line += "(" + Rate(point.samples_per_second / point.ranks) + "/rank) ";
  }
  const double seconds_left =
      static_cast<double>(point.total_steps - point.step) * point.step_seconds;
  return line + "eta " + TimeLeft(seconds_left) +
         (point.last_checkpoint ? " ckpt " + std::to_string(*point.last_checkpoint) : "");
}

std::vector<Scalar> ScalarsOf(const ProgressPoint& point, Generation generation,
                              std::uint64_t resident_bytes) {
  std::vector<Scalar> scalars = {
      {"train/loss", point.loss},
      {"train/samples_per_s", point.samples_per_second},
      {"train/step_s", point.step_seconds},
      {"run/epoch", static_cast<double>(point.epoch)},
      {"run/gen", static_cast<double>(generation.value)},
      {"run/world_size", static_cast<double>(point.ranks)},
      {"run/mem", static_cast<double>(resident_bytes)},
  };
  if (std::isfinite(point.accuracy)) {
    scalars.push_back({"train/accuracy", point.accuracy});
  }
  if (std::isfinite(point.lr)) {
    scalars.push_back({"train/lr", point.lr});
  }
  for (const auto& [name, value] : point.others) {
    scalars.push_back({"train/" + name, value});
  }
  if (point.gradient_norm) {
    scalars.push_back({"train/grad_norm", *point.gradient_norm});
  }
  if (point.gpu_bytes && point.gpu_peak) {
    scalars.push_back({"run/gpu_mem", static_cast<double>(*point.gpu_bytes)});
    scalars.push_back({"run/gpu_mem_peak", static_cast<double>(*point.gpu_peak)});
  }
  return scalars;
}

ProgressPrinter::ProgressPrinter(std::optional<Duration> every)
    : terminal_(isatty(STDERR_FILENO) == 1), every_(every) {}

ProgressPrinter::~ProgressPrinter() {
  EndLine();
}

Duration ProgressPrinter::interval() const {
  if (every_) {
    return *every_;
  }
  return terminal_ ? 200ms : 1000ms;
}

void ProgressPrinter::Print(const ProgressPoint& point, bool important) {
  const auto now = std::chrono::steady_clock::now();
  // A little early is in time: the next chance may be a whole interval away.
  if (!important && last_ && now - *last_ < interval() * 9 / 10) {
    return;
  }
  last_ = now;
  const std::string line = ProgressLine(point);
  if (terminal_) {
    SetLiveLine(line);
    open_line_ = line;
  } else {
    LogAsIs(line + "\n");
  }
}

void ProgressPrinter::EndLine() {
  if (!open_line_.empty()) {
    SetLiveLine("");
    LogAsIs(std::exchange(open_line_, {}) + "\n");
  }
}

std::string MetricsLine(const ProgressPoint& point, Generation generation) {
  nlohmann::json object = {
      {"t", UnixSeconds()},
      {"gen", generation.value},
      {"world_size", point.ranks},
      {"epoch", point.epoch},
      {"step", point.step},
      {"loss", point.loss},
      {"samples_per_s", point.samples_per_second},
      {"mem", ResidentBytes()},
  };
  if (std::isfinite(point.accuracy)) {
    object["accuracy"] = point.accuracy;
  }
  if (std::isfinite(point.lr)) {
    object["lr"] = point.lr;
  }
  for (const auto& [name, value] : point.others) {
    object.emplace(name, value);  // Names of ours stay.
  }
  if (point.gradient_norm && std::isfinite(*point.gradient_norm)) {  // JSON has no infinity.
    object["grad_norm"] = *point.gradient_norm;
  }
  if (point.gpu_bytes && point.gpu_peak) {
    object["gpu_mem"] = *point.gpu_bytes;
    object["gpu_mem_peak"] = *point.gpu_peak;
  }
  return object.dump() + "\n";
}

}  // namespace ddprun

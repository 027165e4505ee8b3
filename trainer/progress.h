// Rank 0's messages while it trains: one line on stderr (by way of the log, so that no rank waits
// for the reader), redrawn on a terminal, at most one a second elsewhere; where asked for, one JSON
// object per report in a file that restarts append to; and the same as numbers with names, for
// curves.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/time.h"
#include "trainer/tensorboard/curve_records.h"

namespace ddprun {

struct ProgressPoint {
  std::uint64_t epoch = 0;  // From 0.
  std::uint64_t epochs = 0;
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;
  double loss = 0;      // Mean since the last report, over all ranks.
  double accuracy = 0;  // Likewise, 0 to 1. NaN: the task knows none.
  double lr = 0;        // NaN: not known.
  double samples_per_second = 0;
  double step_seconds = std::numeric_limits<double>::quiet_NaN();  // Mean since the last report.
  std::uint32_t ranks = 1;
  std::optional<std::uint64_t> gpu_bytes;        // Bytes of rank 0 on its GPU now.
  std::optional<std::uint64_t> gpu_peak;         // The most bytes of rank 0 on its GPU.
  std::optional<double> gradient_norm;           // Of the last step, before clipping.
  std::optional<std::uint64_t> last_checkpoint;  // Step.
  std::map<std::string, double> others;          // Numbers that a program names itself.
};

// "epoch 3/5 step 1200/4690 loss 0.412 acc 88.1% norm 1.93 lr 1.0e-03 5.1k samples/s (2.6k/rank)
// eta 0:12 ckpt 1000", in one line; unknown and empty values are left out.
std::string ProgressLine(const ProgressPoint& point);

// "train/loss" and what else is known. `gen` and `mem` as in the metrics file.
std::vector<Scalar> ScalarsOf(const ProgressPoint& point, Generation generation,
                              std::uint64_t resident_bytes);

// A line of --metrics: one JSON object.
std::string MetricsLine(const ProgressPoint& point, Generation generation);

class ProgressPrinter {
 public:
  // Time between lines; none: 1 s, or 0.2 s on a terminal.
  explicit ProgressPrinter(std::optional<Duration> every);
  // Leaves the terminal's line complete.
  ~ProgressPrinter();

  // How often a new point is worth making.
  Duration interval() const;

  // Dropped when it comes too soon after the last one and is not `important`.
  void Print(const ProgressPoint& point, bool important);
  // Before anything else is printed.
  void EndLine();

 private:
  bool terminal_;
  std::optional<Duration> every_;
  std::string open_line_;  // On the terminal; empty: none.
  std::optional<std::chrono::steady_clock::time_point> last_;
};

}  // namespace ddprun

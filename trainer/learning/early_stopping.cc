#include "trainer/learning/early_stopping.h"

#include <cmath>

namespace ddprun {

bool NoteValidation(Metrics& metrics, std::uint64_t step, double loss) {
  const auto best = metrics.find(kBestLoss);
  // One that came back as no number was infinite: a checkpoint's JSON knows no difference.
  const bool better = std::isfinite(loss) && (best == metrics.end() || !(best->second <= loss));
  if (better) {
    metrics[kBestLoss] = loss;
    metrics[kBestStep] = static_cast<double>(step);
    metrics[kSinceBest] = 0;
  } else {
    metrics[kSinceBest] += 1;
  }
  return better;
}

bool EnoughValidations(const Metrics& metrics, std::uint64_t patience) {
  const auto since = metrics.find(kSinceBest);
  return patience > 0 && since != metrics.end() && since->second >= static_cast<double>(patience);
}

Metrics ValidationMetrics(const Metrics& metrics) {
  Metrics kept;
  for (const char* const name : {kBestLoss, kBestStep, kSinceBest, kStoppedEarly}) {
    if (const auto found = metrics.find(name); found != metrics.end()) {
      kept.insert(*found);
    }
  }
  return kept;
}

}  // namespace ddprun

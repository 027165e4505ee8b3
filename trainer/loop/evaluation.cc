#include "trainer/loop/evaluation.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <span>
#include <vector>

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kSaveLook{100};

// The others' shares may take as long as the own.
Result<void> SumMeanwhile(ProcessGroup& group, std::span<double> sums,
                          const std::function<void()>& meanwhile) {
  std::future<Result<void>> sum =
      std::async(std::launch::async, [&group, sums] { return group.Sum(sums); });
  while (sum.wait_for(kSaveLook) != std::future_status::ready) {
    meanwhile();
  }
  return sum.get();
}

}  // namespace

Result<Evaluation> Evaluate(Training& training, const Samples& samples,
                            const std::function<void()>& meanwhile) {
  training.heartbeat.Phase(kEvaluatedPhase);  // There may be something to wait for.
  RETURN_IF_ERROR(training.learner->ShareBuffers());
  training.heartbeat.Phase(kEvaluatePhase);
  Score score;
  std::vector<std::uint32_t> indices;
  for (std::uint64_t i = training.env.rank; i < samples.count;) {
    indices.clear();
    for (; i < samples.count && indices.size() < training.model.evaluation_batch;
         i += training.env.world_size) {
      indices.push_back(static_cast<std::uint32_t>(i));
    }
    {
      const ReadWatch::Reading reading(training.reads);
      RETURN_IF_ERROR(
          samples.gather(indices, std::nullopt, training.learner->room(Learner::kEvaluationSlot)));
    }
    ASSIGN_OR_RETURN(const Score part, training.learner->Evaluate(indices.size()));
    score += part;
    if (meanwhile) {
      meanwhile();
    }
  }
  training.heartbeat.Phase(kEvaluatedPhase);
  std::array<double, 3> sums = {score.loss_sum, static_cast<double>(score.correct),
                                static_cast<double>(score.samples)};
  RETURN_IF_ERROR(meanwhile && training.IsRankZero()
                      ? SumMeanwhile(*training.group, sums, meanwhile)
                      : training.group->Sum(sums));
  return Evaluation{sums[0] / sums[2], sums[1] / sums[2]};
}

}  // namespace ddprun

#include "trainer/loop/training.h"

#include <algorithm>
#include <utility>

#include "trainer/data/sampler.h"
#include "trainer/stop_request.h"

namespace ddprun {

Training::Training(const TrainConfig& train_config, const WorkerEnv& worker_env,
                   const Notifier& notifier, const Device& own_device,
                   std::function<void(const Error&)> fail)
    : config(train_config),
      env(worker_env),
      device(own_device),
      heartbeat(notifier),
      reads(
          {.what = "samples of " + config.dataset + " are being read",
           // A little less than peers wait in a collective, so that this rank reports first.
           .limit = env.world_size > 1 ? std::optional(config.peer_timeout * 7 / 8) : std::nullopt,
           .asked_to_stop = [] { return StopRequest::Signal().has_value(); },
           .alive = [this] { heartbeat.Extend(); },
           .give_up = std::move(fail)}) {}

void Training::Say(LogLevel level, const std::string& text) {
  if (printer) {
    printer->EndLine();
  }
  Log(level, text);
}

std::uint64_t Training::StepsLeft() const {
  if (state.epoch >= Epochs()) {
    return 0;
  }
  const std::uint64_t samples = dataset.train.count;
  return StepsPerEpoch(samples - state.samples_in_epoch, state.global_batch, LeastBatch()) +
         (Epochs() - state.epoch - 1) * StepsPerEpoch(samples, state.global_batch, LeastBatch());
}

// --scale-lr depends on the batch, not on the number of ranks that share it at the moment.
double Training::LearningRate(double lr) const {
  const auto batches =
      static_cast<double>(state.global_batch) / static_cast<double>(state.rank_batch);
  return (config.scale_lr ? lr * batches : lr) * LearningRateFactor(schedule, state.step);
}

std::uint64_t Training::LargestPart() const {
  const std::uint64_t share = std::min<std::uint64_t>(
      LargestShare(state.global_batch, env.world_size), dataset.train.count);
  return std::min(share, static_cast<std::uint64_t>(config.micro_batch));
}

FeedPlan Training::Feed(std::uint64_t most_per_part, bool ahead) const {
  return {.start = {state.epoch, state.samples_in_epoch},
          .seed = state.seed,
          .global_batch = state.global_batch,
          .least_batch = LeastBatch(),
          .most_per_part = most_per_part,
          .rank = env.rank,
          .world_size = env.world_size,
          .ahead = ahead};
}

TrainState Training::StateNow() const {
  TrainState now = state;
  now.buckets = learner->buckets();
  now.best = best && config.run.keep_best;
  return now;
}

}  // namespace ddprun

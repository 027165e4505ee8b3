#include "trainer/learning/score_accumulator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

std::uint64_t CountCorrect(const at::Tensor& output, const std::int64_t* labels) {
  const at::Tensor logits = output.contiguous();  // A model may end with a transposition.
  const float* row = logits.const_data_ptr<float>();
  const std::int64_t classes = logits.size(1);
  std::uint64_t correct = 0;
  for (std::int64_t i = 0; i < logits.size(0); ++i, row += classes) {
    correct += std::max_element(row, row + classes) - row == labels[i];
  }
  return correct;
}

}  // namespace

ScoreAccumulator::ScoreAccumulator(at::Device device)
    : device_(device), tally_(at::zeros({2}, at::TensorOptions(at::kDouble).device(device))) {
  if (device.is_cuda()) {
    const c10::impl::VirtualGuardImpl gpu(device.type());
    beside_.emplace(Beside{gpu.getStreamFromGlobalPool(device), c10::Event(device.type()),
                           c10::Event(device.type())});
  }
}

void ScoreAccumulator::Add(const at::Tensor& output, const at::Tensor& loss, const TaskBatch& batch,
                           double losses_of_one_sample) {
  const at::NoGradGuard no_grad;
  const bool labels = batch.labels.defined();
  if (!device_.is_cpu()) {
    std::optional<c10::StreamGuard> on;
    if (beside_) {
      beside_->ready.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
      beside_->ready.block(beside_->stream);
      on.emplace(beside_->stream);
    }
    tally_.select(0, 0).add_(loss, 1 / losses_of_one_sample);
    if (labels) {
      tally_.select(0, 1).add_(output.argmax(1).eq(batch.labels).sum());
    }
    if (beside_) {
      beside_->added.record(beside_->stream);
    }
    return;
  }
  score_.loss_sum += labels ? loss.item<float>() : loss.item<double>() / losses_of_one_sample;
  if (labels) {
    score_.correct += CountCorrect(output, batch.labels.const_data_ptr<std::int64_t>());
  }
}

void ScoreAccumulator::Join() {
  if (beside_) {
    beside_->added.block(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
}

Score ScoreAccumulator::Take() {
  if (!device_.is_cpu()) {
    const at::Tensor sums = tally_.cpu();
    score_.loss_sum += sums[0].item<double>();
    score_.correct += static_cast<std::uint64_t>(sums[1].item<double>());
    tally_.zero_();
  }
  return std::exchange(score_, Score{});
}

}  // namespace ddprun

// How a learner takes a step.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/check.h"
#include "trainer/learning/learner_impl.h"
#include "trainer/learning/loss_scaler.h"
#include "trainer/profiler/recorder.h"

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

// Matrix products and convolutions in 16 bits as long as it lives, the rest as autocast decides.
class Autocast {
 public:
  Autocast(Precision precision, at::DeviceType device)
      : wanted_(precision != Precision::kFloat32), device_(device) {
    if (wanted_) {
      at::autocast::set_autocast_dtype(
          device_, precision == Precision::kFloat16 ? at::kHalf : at::kBFloat16);
      at::autocast::set_autocast_enabled(device_, true);
    }
  }
  ~Autocast() {
    if (wanted_) {
      at::autocast::set_autocast_enabled(device_, false);
      at::autocast::clear_cache();  // Weights change with the next update.
    }
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool wanted_;
  const at::DeviceType device_;
};

}  // namespace

// The sum over samples, so that parts and ranks add up.
at::Tensor Learner::Impl::LossOf(const at::Tensor& output, const Batch& batch) const {
  if (options.task.classifies()) {
    return at::cross_entropy_loss(output, batch.labels, {}, at::Reduction::Sum);
  }
  if (options.loss == Loss::kCrossEntropy) {
    return at::cross_entropy_loss(output, batch.targets, {}, at::Reduction::Sum);
  }
  return at::mse_loss(output, batch.targets, at::Reduction::Sum);
}

// How many losses are in a sample's, of which PyTorch takes the mean: for float targets one of each
// number, or one of each distribution.
double Learner::Impl::LossesOfOneSample() const {
  if (options.task.classifies()) {
    return 1;
  }
  const Shape& target = options.task.target;
  const auto numbers = static_cast<double>(NumbersIn(target));
  return options.loss == Loss::kCrossEntropy ? numbers / static_cast<double>(target[0]) : numbers;
}

// Of a device nothing is asked here: the loop would wait for all that it was told before.
void Learner::Impl::AddScore(const at::Tensor& output, const at::Tensor& loss, const Batch& batch) {
  const at::NoGradGuard no_grad;
  const bool labels = options.task.classifies();
  const double numbers = LossesOfOneSample();
  if (!device.is_cpu()) {
    tally.select(0, 0).add_(loss, 1 / numbers);
    if (labels) {
      tally.select(0, 1).add_(output.argmax(1).eq(batch.labels).sum());
    }
    return;
  }
  score.loss_sum += labels ? loss.item<float>() : loss.item<double>() / numbers;
  if (labels) {
    score.correct += CountCorrect(output, batch.labels.const_data_ptr<std::int64_t>());
  }
}

Score Learner::Impl::TakeScore() {
  if (!device.is_cpu()) {
    const at::Tensor sums = tally.cpu();
    score.loss_sum += sums[0].item<double>();
    score.correct += static_cast<std::uint64_t>(sums[1].item<double>());
    tally.zero_();
  }
  return std::exchange(score, Score{});
}

Result<void> Learner::Impl::AddGradients(const Part& part) {
  if (part.first) {
    random.set_current_seed(part.seed);
  }
  // The exchange divides by the number of ranks; this undoes it and divides by all samples. Without
  // an exchange it makes the mean over this rank's, if all have as many.
  const double numbers = LossesOfOneSample();
  const double scale =
      options.precision == Precision::kFloat16 ? *loss_scale.const_data_ptr<double>() : 1;
  weight.fill_(scale * (static_cast<double>(group.size()) /
                        (static_cast<double>(part.global_count) * numbers)));
  const Batch batch = slots->Take(part.slot, part.count);
  // All ranks record the same step: what NCCL does in a graph it does with all of them.
  if (options.graph && part.regular && part.first && part.last) {
    RETURN_IF_ERROR(GraphStep(batch));
  } else {
    ForwardBackward(batch, part.first, part.last);
  }
  score.samples += part.count;
  slots->Done();
  return {};
}

Result<void> Learner::Impl::GraphStep(const Batch& batch) {
  if (warm_steps < kWarmSteps) {
    ++warm_steps;
    ForwardBackward(batch, /*first=*/true, /*last=*/true);
    return {};
  }
  if (!recorded) {
    recorded.emplace();
    ForEachTensor(batch, recorded->batch,
                  [](const at::Tensor& from, at::Tensor& to) { to = at::empty_like(from); });
    RETURN_IF_ERROR(options.graph->Record(
        [this] { ForwardBackward(recorded->batch, /*first=*/true, /*last=*/true); }));
    for (const at::Tensor& parameter : model->parameters) {
      recorded->gradients.push_back(parameter.grad());
    }
  }
  ForEachTensor(batch, recorded->batch,
                [](const at::Tensor& from, at::Tensor& to) { to.copy_(from); });
  for (std::size_t i = 0; i < model->parameters.size(); ++i) {
    model->parameters[i].mutable_grad() = recorded->gradients[i];  // A step beside it has others.
  }
  const NamedRange range("replay");
  return options.graph->Replay();
}

void Learner::Impl::ForwardBackward(const Batch& batch, bool first, bool last) {
  if (first) {
    for (at::Tensor& parameter : model->parameters) {
      parameter.mutable_grad().reset();  // zero_grad's detach_ is refused on views into buckets.
    }
  }
  if (exchange && last) {
    exchange->BeforeForward();
  }
  std::optional<NamedRange> range(std::in_place, "forward");
  const at::Tensor output = Output(batch.inputs, /*training=*/true);
  const at::Tensor loss = LossOf(output, batch);
  range.reset();
  if (exchange && last) {
    exchange->BeforeBackward();
  }
  range.emplace("backward");
  loss.backward(weight);
  range.reset();
  AddScore(output, loss, batch);
}

// Whether they are numbers to learn from. Asks the device, once per step.
bool Learner::Impl::Unscale(const std::vector<at::Tensor>& gradients) {
  if (options.precision != Precision::kFloat16) {
    return true;
  }
  const at::NoGradGuard no_grad;
  auto* const numbers = loss_scale.mutable_data_ptr<double>();
  const at::TensorOptions there = at::TensorOptions(at::kFloat).device(device);
  at::Tensor overflow = at::zeros({}, there);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, overflow,
                                                 at::full({}, 1 / numbers[0], there));
  const bool overflowed = overflow.item<float>() != 0;
  const LossScale next = Next(LossScale{numbers[0], numbers[1]}, overflowed);
  numbers[0] = next.scale;
  numbers[1] = next.good_steps;
  return !overflowed;
}

// float32 and where the input is, whatever it was computed in and wherever.
at::Tensor Learner::Impl::Output(const std::vector<at::Tensor>& inputs, bool training) const {
  const Autocast autocast(options.precision, device.type());
  return model->forward(inputs, training).to(inputs[0].device(), at::kFloat);
}

Result<std::vector<at::Tensor>> Learner::Impl::Gradients() const {
  std::vector<at::Tensor> gradients;
  gradients.reserve(model->parameters.size());
  std::string unused;
  for (std::size_t i = 0; i < model->parameters.size(); ++i) {
    gradients.push_back(model->parameters[i].grad());
    if (!gradients.back().defined()) {
      unused += (unused.empty() ? "" : ", ") + model->names[i];
    }
  }
  if (!unused.empty()) {
    return Error{ErrorKind::kInvalid,
                 "these parameters have no part in the loss, so they have no gradient: " + unused +
                     ". Every parameter must be used in every forward; leave out those that are "
                     "not"};
  }
  return gradients;
}

}  // namespace ddprun

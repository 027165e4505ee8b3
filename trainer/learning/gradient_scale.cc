#include "trainer/learning/gradient_scale.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace ddprun {

GradientScale::GradientScale(at::Device device)
    : device_(device),
      numbers_(at::tensor({LossScale{}.scale, LossScale{}.good_steps}, at::kDouble)) {}

bool GradientScale::Unscale(const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  auto* const numbers = numbers_.mutable_data_ptr<double>();
  const at::TensorOptions there = at::TensorOptions(at::kFloat).device(device_);
  at::Tensor overflow = at::zeros({}, there);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, overflow,
                                                 at::full({}, 1 / numbers[0], there));
  const bool overflowed = overflow.item<float>() != 0;
  const LossScale next = Next(LossScale{numbers[0], numbers[1]}, overflowed);
  numbers[0] = next.scale;
  numbers[1] = next.good_steps;
  return !overflowed;
}

}  // namespace ddprun

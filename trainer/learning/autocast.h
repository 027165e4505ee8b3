// libtorch's autocast, on from construction to destruction in this thread.
//
// Included only by files that see libtorch anyway.
#pragma once

#include <ATen/autocast_mode.h>

#include "trainer/options/learning_options.h"

namespace ddprun {

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

}  // namespace ddprun

// Perceptrons. In Python, mlp is a module whose members are fc1 = nn.Linear(784, 50) and
// fc2 = nn.Linear(50, 10), called fc2(relu(fc1(x))); linear has one member fc = nn.Linear(784, 10).
#pragma once

#include <memory>

#include "trainer/models/model.h"

namespace ddprun {

std::shared_ptr<TorchModel> MakeMlp(const ModelShape& shape, std::uint64_t seed);
std::shared_ptr<TorchModel> MakeLinear(const ModelShape& shape, std::uint64_t seed);

}  // namespace ddprun

// The forward of a model as a package has it that torch.export and AOTInductor made in Python, with
// the parameters of the model here: for evaluation on the CPU.
//
// A package is a shared library, so loading one runs its code. Included only by files that see
// libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <vector>

#include "common/result.h"
#include "trainer/learning/named_tensor.h"

namespace ddprun {

using Forward = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;
// kInvalid: the package does not take such inputs, or it computes something else than the model,
// which is seen at the first call.
using CompiledForward = std::function<Result<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

// Gives the first output of the package, with the values that `state` has then: the parameters and
// buffers of `model` under their names in Python. kInvalid: the file is no package, or its
// parameters are not the model's; the message names the first.
Result<CompiledForward> LoadCompiledForward(const std::filesystem::path& file,
                                            const std::vector<NamedTensor>& state, Forward model);

}  // namespace ddprun

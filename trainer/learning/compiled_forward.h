// The forward of a model as a package has it that torch.export and AOTInductor made in Python, with
// the parameters of the model here: for evaluation on the CPU.
//
// A package is a shared library, so loading one runs its code. Included only by files that see
// libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/result.h"
#include "trainer/learning/optimizer.h"

namespace torch::inductor {
class AOTIModelPackageLoader;
}

namespace ddprun {

class CompiledForward {
 public:
  using Forward = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

  // `state` are the model's parameters and buffers under their names in Python. kInvalid: the file
  // is no package, or its parameters are not the model's; the message names the first.
  static Result<CompiledForward> Load(const std::filesystem::path& file,
                                      std::vector<NamedTensor> state);
  CompiledForward(CompiledForward&& other) noexcept;
  CompiledForward& operator=(CompiledForward&& other) noexcept;
  ~CompiledForward();

  // The first output of the package, with the parameters of now. kInvalid: the package does not
  // take such inputs, or it computes something else than `model`, which is seen at the first call.
  Result<at::Tensor> Run(const std::vector<at::Tensor>& inputs, const Forward& model);

 private:
  using Tensors = std::unordered_map<std::string, at::Tensor>;

  explicit CompiledForward(const std::filesystem::path& file);
  // Sets tensors_. Empty: they fit.
  std::string Bind(const std::vector<NamedTensor>& state, const Tensors& of_package);
  Error Refused(const std::string& why) const;

  std::string file_;
  std::unique_ptr<torch::inductor::AOTIModelPackageLoader> package_;
  Tensors tensors_;  // The model's own, by the package's names.
  bool compared_ = false;
};

}  // namespace ddprun

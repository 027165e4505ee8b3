#include "trainer/learning/compiled_forward.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "trainer/learning/tensor_copies.h"

namespace ddprun {
namespace {

// Of what the compiler changes; a model that is another one differs by far more.
constexpr double kTolerance = 1e-3;

std::string FirstLineOf(const std::exception& error) {
  const std::string_view text = error.what();
  return std::string(text.substr(0, text.find('\n')));
}

std::string TypeText(const at::Tensor& tensor) {
  return std::string(at::toString(tensor.scalar_type())) + ShapeText(tensor.sizes());
}

// The loader unpacks a package in TMPDIR and removes that in its destructor, which neither a killed
// process nor a package that cannot be loaded reaches. Once the library is mapped, nothing reads
// the files: so they go with this folder.
class FolderForFiles {
 public:
  FolderForFiles() {
    if (const char* const before = std::getenv("TMPDIR")) {
      before_ = before;
    }
    std::string path = before_.value_or("/tmp") + "/ddprun-package-XXXXXX";
    if (mkdtemp(path.data()) != nullptr) {
      path_ = path;
      setenv("TMPDIR", path_.c_str(), /*overwrite=*/1);
    }
  }
  ~FolderForFiles() {
    if (path_.empty()) {
      return;
    }
    if (before_) {
      setenv("TMPDIR", before_->c_str(), /*overwrite=*/1);
    } else {
      unsetenv("TMPDIR");
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FolderForFiles(const FolderForFiles&) = delete;
  FolderForFiles& operator=(const FolderForFiles&) = delete;

 private:
  std::optional<std::string> before_;
  std::string path_;
};

// Constants of the program, which are no parameters.
bool BelongsToPackage(const std::string& name) {
  return name.starts_with("_tensor_constant");
}

}  // namespace

CompiledForward::CompiledForward(const std::filesystem::path& file) : file_(file.native()) {}
CompiledForward::CompiledForward(CompiledForward&& other) noexcept = default;
CompiledForward& CompiledForward::operator=(CompiledForward&& other) noexcept = default;
CompiledForward::~CompiledForward() = default;

Error CompiledForward::Refused(const std::string& why) const {
  return {ErrorKind::kInvalid,
          "cannot evaluate with the package '" + file_ + "': " + why +
              ". Export the model that is trained, as docs/own-model.md shows"};
}

Result<CompiledForward> CompiledForward::Load(const std::filesystem::path& file,
                                              std::vector<NamedTensor> state) {
  CompiledForward forward(file);
  if (access(file.c_str(), R_OK) != 0) {
    return forward.Refused(std::strerror(errno));
  }
  // The library reads it at its first run. Without it a batch of a shape that the package is not
  // for is read beyond its end.
  setenv("AOTI_RUNTIME_CHECK_INPUTS", "1", /*overwrite=*/1);
  try {
    const FolderForFiles folder;
    forward.package_ = std::make_unique<torch::inductor::AOTIModelPackageLoader>(
        forward.file_, "model", /*run_single_threaded=*/true);
    const std::string misfit =
        forward.Bind(state, forward.package_->get_runner()->extract_constants_map(false));
    if (!misfit.empty()) {
      return forward.Refused(misfit);
    }
    return forward;
  } catch (const std::exception& error) {
    return forward.Refused(FirstLineOf(error));
  }
}

std::string CompiledForward::Bind(const std::vector<NamedTensor>& state,
                                  const Tensors& of_package) {
  for (const NamedTensor& item : state) {
    const auto found = of_package.find(item.name);
    if (found == of_package.end()) {
      continue;
    }
    const at::Tensor& theirs = found->second;
    if (theirs.device() != item.tensor.device()) {
      return "it is for " + theirs.device().str() + ", and this rank computes on " +
             item.tensor.device().str();
    }
    // The library has sizes and strides in its code.
    if (TypeText(theirs) != TypeText(item.tensor) || theirs.strides() != item.tensor.strides()) {
      return "its '" + item.name + "' is " + TypeText(theirs) + ", that of the model is " +
             TypeText(item.tensor) +
             (theirs.sizes() == item.tensor.sizes() ? " in another layout" : "");
    }
    tensors_.emplace(item.name, item.tensor);
  }
  for (const NamedTensor& item : state) {
    // Counters of batch norm have no part in an evaluation. A tensor may have two names.
    const bool used = !item.tensor.is_floating_point() ||
                      std::any_of(tensors_.begin(), tensors_.end(), [&](const auto& bound) {
                        return bound.second.is_same(item.tensor);
                      });
    if (!used) {
      return "it lacks the model's '" + item.name + "'";
    }
  }
  for (const auto& [name, tensor] : of_package) {
    if (!tensors_.contains(name) && !BelongsToPackage(name)) {
      return "it has '" + name + "', which the model lacks";
    }
  }
  return "";
}

Result<at::Tensor> CompiledForward::Run(const std::vector<at::Tensor>& inputs,
                                        const Forward& model) {
  at::Tensor output;
  try {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> dense;
    for (const at::Tensor& input : inputs) {
      dense.push_back(input.contiguous());
    }
    // The package uses the model's memory, but what it computes from parameters alone is computed
    // anew only after this call.
    package_->load_constants(tensors_, /*use_inactive=*/false, /*check_full_update=*/false,
                             /*user_managed=*/true);
    output = package_->run(dense).at(0);
  } catch (const std::exception& error) {
    return Refused(FirstLineOf(error));
  }
  if (!std::exchange(compared_, true)) {
    const at::Tensor expected = model(inputs);
    const double most = expected.abs().nan_to_num(0, 0, 0).max().item<double>();
    if (!output.sizes().equals(expected.sizes()) ||
        !output.allclose(expected, kTolerance, kTolerance * most, /*equal_nan=*/true)) {
      return Refused("it computes something else than the model, from " + TypeText(inputs[0]) +
                     " a " + TypeText(output));
    }
  }
  return output;
}

}  // namespace ddprun

#include "trainer/learning/compiled_forward.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

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

// The loader unpacks a package in TMPDIR and removes that in its destructor, which a killed process
// never reaches, and not at all if the package cannot be loaded. So TMPDIR is a folder of our own
// meanwhile: once the library is mapped, nothing reads the files.
class UnpackFolder {
 public:
  UnpackFolder() : path_(std::filesystem::temp_directory_path() / "ddprun_package_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) {
      throw std::runtime_error("cannot make '" + path_ + "': " + std::strerror(errno));
    }
    setenv("TMPDIR", path_.c_str(), /*overwrite=*/1);
  }
  ~UnpackFolder() {
    if (before_) {
      setenv("TMPDIR", before_->c_str(), /*overwrite=*/1);
    } else {
      unsetenv("TMPDIR");
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  UnpackFolder(const UnpackFolder&) = delete;
  UnpackFolder& operator=(const UnpackFolder&) = delete;

 private:
  static std::optional<std::string> TmpDir() {
    const char* const value = std::getenv("TMPDIR");
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }

  const std::optional<std::string> before_ = TmpDir();
  std::string path_;
};

// Constants of the program, which are no parameters.
bool BelongsToPackage(const std::string& name) {
  return name.starts_with("_tensor_constant");
}

class Package {
 public:
  Package(const std::filesystem::path& file, Forward model)
      : file_(file.native()), model_(std::move(model)) {}

  Result<void> Load(const std::vector<NamedTensor>& state);
  Result<at::Tensor> Run(const std::vector<at::Tensor>& inputs);

 private:
  using Tensors = std::unordered_map<std::string, at::Tensor>;

  // Sets tensors_. Empty: they fit.
  std::string Bind(const std::vector<NamedTensor>& state, const Tensors& of_package);
  Error Refused(const std::string& why) const {
    return {ErrorKind::kInvalid,
            "cannot evaluate with the package '" + file_ + "': " + why +
                ". Export the model that is trained, with its names, types and shapes"};
  }

  const std::string file_;
  const Forward model_;
  std::unique_ptr<torch::inductor::AOTIModelPackageLoader> package_;
  Tensors tensors_;  // The model's own, by the package's names.
  bool compared_ = false;
};

Result<void> Package::Load(const std::vector<NamedTensor>& state) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file_, error)) {  // The loader also takes a folder.
    return Refused(error ? error.message() : "it is not a file");
  }
  if (access(file_.c_str(), R_OK) != 0) {
    return Refused(std::strerror(errno));
  }
  // The library reads it at its first run. Without it a batch of a shape that the package is not
  // for is read beyond its end.
  setenv("AOTI_RUNTIME_CHECK_INPUTS", "1", /*overwrite=*/1);
  try {
    const UnpackFolder folder;
    package_ = std::make_unique<torch::inductor::AOTIModelPackageLoader>(
        file_, "model", /*run_single_threaded=*/true);
    const std::string misfit = Bind(state, package_->get_runner()->extract_constants_map(false));
    return misfit.empty() ? Result<void>() : Refused(misfit);
  } catch (const std::exception& error) {
    return Refused(FirstLineOf(error));
  }
}

std::string Package::Bind(const std::vector<NamedTensor>& state, const Tensors& of_package) {
  for (const NamedTensor& item : state) {
    const auto found = of_package.find(item.name);
    if (found == of_package.end()) {
      continue;
    }
    const at::Tensor& theirs = found->second;
    if (theirs.device() != item.tensor.device()) {
      return "it is for " + theirs.device().str() + ", but this rank computes on " +
             item.tensor.device().str();
    }
    // The library has sizes and strides in its code.
    if (TypeText(theirs) != TypeText(item.tensor) || theirs.strides() != item.tensor.strides()) {
      return "its '" + item.name + "' is " + TypeText(theirs) + ", but the model's is " +
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

Result<at::Tensor> Package::Run(const std::vector<at::Tensor>& inputs) {
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
    const at::Tensor expected = model_(inputs);
    const double most = expected.abs().nan_to_num(0, 0, 0).max().item<double>();
    if (!output.sizes().equals(expected.sizes()) ||
        output.scalar_type() != expected.scalar_type() ||
        !output.allclose(expected, kTolerance, kTolerance * most, /*equal_nan=*/true)) {
      return Refused("its result differs from the model's: it computes " + TypeText(output) +
                     " from " + TypeText(inputs[0]));
    }
  }
  return output;
}

}  // namespace

Result<CompiledForward> LoadCompiledForward(const std::filesystem::path& file,
                                            const std::vector<NamedTensor>& state, Forward model) {
  const auto package = std::make_shared<Package>(file, std::move(model));
  RETURN_IF_ERROR(package->Load(state));
  return CompiledForward(
      [package](const std::vector<at::Tensor>& inputs) { return package->Run(inputs); });
}

}  // namespace ddprun

#include "trainer/learning/tensor_copies.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "common/check.h"

namespace ddprun {
namespace {

std::optional<DType> SavedType(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return DType::kF64;
    case at::kFloat:
      return DType::kF32;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kLong:
      return DType::kI64;
    case at::kInt:
      return DType::kI32;
    case at::kByte:
      return DType::kU8;
    case at::kBool:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

DType TypeOf(const at::Tensor& tensor) {
  const std::optional<DType> type = SavedType(tensor);
  CHECK(type);
  return *type;
}

}  // namespace

std::string ShapeText(c10::IntArrayRef shape) {
  std::string text;
  for (const std::int64_t dimension : shape) {
    text += (text.empty() ? "" : ",") + std::to_string(dimension);
  }
  return "[" + text + "]";
}

bool CanBeSaved(const at::Tensor& tensor) {
  return SavedType(tensor).has_value();
}

std::vector<TensorView> ViewsOf(const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& item : tensors) {
    order.push_back(&item);
  }
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* one, const NamedTensor* two) {
    return one->tensor.element_size() > two->tensor.element_size();
  });
  std::vector<TensorView> views;
  for (const NamedTensor* const item : order) {
    const at::Tensor& tensor = item->tensor;
    CHECK(tensor.is_contiguous());
    views.push_back({.name = item->name,
                     .dtype = TypeOf(tensor),
                     .shape = tensor.sizes().vec(),
                     .bytes = {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()},
                     .forward_changes_it = item->changes_at_any_time});
  }
  return views;
}

Result<void> CopyBack(const std::vector<Tensor>& from, const std::vector<NamedTensor>& to) {
  std::map<std::string_view, const Tensor*> index;
  for (const Tensor& tensor : from) {
    index[tensor.name] = &tensor;
  }
  for (const NamedTensor& item : to) {
    const auto found = index.find(item.name);
    if (found == index.end() && item.may_be_missing) {
      continue;
    }
    if (found == index.end()) {
      return Invalid("the checkpoint lacks a tensor of this model", item.name);
    }
    const Tensor& saved = *found->second;
    const at::Tensor& tensor = item.tensor;
    if (saved.dtype != TypeOf(tensor) || saved.shape != tensor.sizes().vec() ||
        saved.bytes.size() != tensor.nbytes()) {
      return Invalid("a tensor of the checkpoint has another type or shape than this model's " +
                         ShapeText(tensor.sizes()),
                     item.name);
    }
    if (tensor.device().is_cpu()) {
      std::memcpy(tensor.mutable_data_ptr(), saved.bytes.data(), saved.bytes.size());
    } else {
      const at::NoGradGuard no_grad;
      tensor.copy_(at::from_blob(const_cast<char*>(saved.bytes.data()), tensor.sizes(),
                                 tensor.scalar_type()));
    }
  }
  return {};
}

std::vector<NamedTensor> HostMirror::Copy(const std::vector<NamedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::map<c10::DeviceIndex, at::Device> gpus;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& from = tensors[i].tensor;
    if (from.device().is_cuda()) {
      gpus.emplace(from.device().index(), from.device());
    }
    if (i == copies_.size()) {
      copies_.push_back(
          {tensors[i].name, at::empty(from.sizes(), at::TensorOptions()
                                                        .dtype(from.scalar_type())
                                                        .pinned_memory(from.device().is_cuda()))});
    }
    copies_[i].tensor.copy_(from, /*non_blocking=*/true);
  }
  for (const auto& [index, gpu] : gpus) {
    c10::Event& event = arrived_.try_emplace(index, gpu.type()).first->second;
    event.record(c10::impl::VirtualGuardImpl(gpu.type()).getStream(gpu));
  }
  return copies_;
}

void HostMirror::Wait() const {
  for (const auto& [index, event] : arrived_) {
    event.synchronize();
  }
}

}  // namespace ddprun

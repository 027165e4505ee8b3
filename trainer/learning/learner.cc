#include "trainer/learning/learner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/text.h"
#include "trainer/group/process_group.h"
#include "trainer/group/torch_group.h"
#include "trainer/learning/named_tensor.h"

namespace ddprun {
namespace {

DType TypeOf(const at::Tensor& tensor) {
  const std::optional<DType> type = SavedType(tensor);
  CHECK(type);
  return *type;
}

// Tensors of wider types come first: a file of them then has each at a multiple of its size.
std::vector<TensorView> ViewsOf(std::vector<NamedTensor> tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return a.tensor.element_size() > b.tensor.element_size();
  });
  std::vector<TensorView> views;
  for (const NamedTensor& item : tensors) {
    const at::Tensor& tensor = item.tensor;
    CHECK(tensor.is_contiguous());
    views.push_back({.name = item.name,
                     .dtype = TypeOf(tensor),
                     .shape = tensor.sizes().vec(),
                     .bytes = {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()},
                     .forward_changes_it = item.changes_at_any_time});
  }
  return views;
}

Error OfOtherState(const std::string& what) {
  return {ErrorKind::kInvalid,
          "the checkpoint " + what +
              ": other parameters, or another optimizer, were trained. Train the same, or set "
              "another --checkpoint-dir (--init-from takes its parameters)"};
}

// Each tensor of `to` from the one of its name. kInvalid: one is missing that may not be, or has
// another type or shape; or `whole`, and one of `from` is not in `to`.
Result<void> CopyBack(const std::vector<Tensor>& from, const std::vector<NamedTensor>& to,
                      bool whole) {
  std::map<std::string_view, const Tensor*> index;
  for (const Tensor& tensor : from) {
    index[tensor.name] = &tensor;
  }
  auto rest = index;
  for (const NamedTensor& item : to) {
    rest.erase(item.name);
  }
  if (whole && !rest.empty()) {
    return OfOtherState("has the tensor '" + rest.begin()->second->name +
                        "', which has no place here");
  }
  for (const NamedTensor& item : to) {
    const auto found = index.find(item.name);
    if (found == index.end() && item.may_be_missing) {
      continue;
    }
    if (found == index.end()) {
      return OfOtherState("lacks the tensor '" + item.name + "'");
    }
    const Tensor& saved = *found->second;
    const at::Tensor& tensor = item.tensor;
    if (saved.dtype != TypeOf(tensor) || saved.shape != tensor.sizes().vec() ||
        saved.bytes.size() != tensor.nbytes()) {
      return OfOtherState("has the tensor '" + item.name + "' with another type or shape, not " +
                          std::string(EntryOf(TypeOf(tensor)).name) + ShapeText(tensor.sizes()));
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

// Copies of a GPU's tensors for a snapshot: in the host's memory, always in the same place.
class HostMirror {
 public:
  // Behind what the current stream has been told so far, and before what it will be told.
  std::vector<NamedTensor> Copy(const std::vector<NamedTensor>& tensors);
  // Until the last ones have arrived; in any thread.
  void Wait() const;

 private:
  std::vector<NamedTensor> copies_;
  std::map<c10::DeviceIndex, c10::Event> arrived_;  // Of each GPU.
};

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

}  // namespace

struct Learner::Mirrors {
  HostMirror model;
  HostMirror optimizer;
};

Learner::Learner(ProcessGroup& group, bool apart)
    : group_(group), apart_(apart), mirrors_(std::make_unique<Mirrors>()) {}

Learner::~Learner() = default;

std::string Learner::Describe() const {
  return Joined(ModelTensors(), " ",
                [](const NamedTensor& item) { return item.name + ShapeText(item.tensor.sizes()); });
}

std::string Learner::Frozen() const {
  std::vector<std::string> names;
  for (const NamedTensor& item : ModelTensors()) {
    if (!item.changes_at_any_time && !item.tensor.requires_grad()) {
      names.push_back(item.name);
    }
  }
  std::ranges::sort(names);
  return names.empty() ? "none" : Joined(names, " ");
}

SnapshotView Learner::View() const {
  GatherNumbers();
  if (!apart_) {
    return {ViewsOf(ModelTensors()), ViewsOf(OptimizerTensors()), {}};
  }
  if (before_update_) {
    before_update_();  // Until the copies of the last view have been read.
  }
  return {ViewsOf(mirrors_->model.Copy(ModelTensors())),
          ViewsOf(mirrors_->optimizer.Copy(OptimizerTensors())), [this] {
            mirrors_->model.Wait();
            mirrors_->optimizer.Wait();
          }};
}

std::uint64_t Learner::StateBytes() const {
  std::uint64_t bytes = 0;
  for (const std::vector<NamedTensor>& state : {ModelTensors(), OptimizerTensors()}) {
    for (const NamedTensor& item : state) {
      bytes += item.tensor.nbytes();
    }
  }
  return bytes;
}

Result<void> Learner::CopyFrom(const Snapshot& snapshot) {
  RETURN_IF_ERROR(CopyBack(snapshot.model, ModelTensors(), /*whole=*/true));
  RETURN_IF_ERROR(CopyBack(snapshot.optimizer, OptimizerTensors(), !MayLeaveOptimizerState()));
  ReturnNumbers();
  return {};
}

bool Learner::HasBuffers() const {
  const std::vector<NamedTensor> state = ModelTensors();
  return std::any_of(state.begin(), state.end(),
                     [](const NamedTensor& item) { return item.changes_at_any_time; });
}

// Also what a program changes by itself: rank 0's is what is saved.
Result<void> Learner::ShareBuffers() {
  if (group_.torch() == nullptr) {
    return {};
  }
  std::vector<at::Tensor> buffers;
  for (const NamedTensor& item : ModelTensors()) {
    if (item.changes_at_any_time) {
      buffers.push_back(item.tensor);
    }
  }
  return Collectively(group_.rank(), "receive the buffers", [&]() -> Result<void> {
    Broadcast(*group_.torch(), buffers);
    return {};
  });
}

void Learner::ReceiveState(std::uint32_t from) const {
  GatherNumbers();
  std::vector<at::Tensor> tensors;
  for (const std::vector<NamedTensor>& state : {ModelTensors(), OptimizerTensors()}) {
    for (const NamedTensor& item : state) {
      tensors.push_back(item.tensor);
    }
  }
  Broadcast(*group_.torch(), tensors, from);
  ReturnNumbers();
}

void Learner::AwaitCopies() const {
  if (before_update_ && !apart_) {
    before_update_();
  }
}

}  // namespace ddprun

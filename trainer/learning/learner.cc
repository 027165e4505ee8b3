#include "trainer/learning/learner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/group/process_group.h"
#include "trainer/group/torch_group.h"
#include "trainer/learning/broadcast.h"
#include "trainer/learning/tensor_copies.h"

namespace ddprun {

struct Learner::Mirrors {
  HostMirror model;
  HostMirror optimizer;
};

Learner::Learner(ProcessGroup& group, bool apart)
    : group_(group), apart_(apart), mirrors_(std::make_unique<Mirrors>()) {}

Learner::~Learner() = default;

std::string Learner::Describe() const {
  std::string text;
  for (const NamedTensor& item : ModelTensors()) {
    text += (text.empty() ? "" : " ") + item.name + ShapeText(item.tensor.sizes());
  }
  return text;
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
  RETURN_IF_ERROR(CopyBack(snapshot.model, ModelTensors()));
  RETURN_IF_ERROR(CopyBack(snapshot.optimizer, OptimizerTensors()));
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
  try {
    Broadcast(group_, buffers);
    return {};
  } catch (const std::exception&) {
    return CollectiveError(group_.rank(), "receive the buffers");
  }
}

void Learner::ReceiveState(std::uint32_t from) const {
  GatherNumbers();
  std::vector<at::Tensor> tensors;
  for (const std::vector<NamedTensor>& state : {ModelTensors(), OptimizerTensors()}) {
    for (const NamedTensor& item : state) {
      tensors.push_back(item.tensor);
    }
  }
  Broadcast(group_, tensors, from);
  ReturnNumbers();
}

void Learner::AwaitCopies() const {
  if (before_update_ && !apart_) {
    before_update_();
  }
}

}  // namespace ddprun

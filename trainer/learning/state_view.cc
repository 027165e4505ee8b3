#include "trainer/learning/state_view.h"

#include <algorithm>

namespace ddprun {

std::vector<NamedTensor> StateView::OptimizerState() const {
  std::vector<NamedTensor> state = optimizer_.state();
  for (NamedTensor& item : scale_.state()) {
    state.push_back(std::move(item));
  }
  return state;
}

SnapshotView StateView::View(const std::function<void()>& wait) {
  if (apart_) {
    if (wait) {
      wait();
    }
    return {ViewsOf(model_mirror_.Copy(model_.State())),
            ViewsOf(optimizer_mirror_.Copy(OptimizerState())), [this] {
              model_mirror_.Wait();
              optimizer_mirror_.Wait();
            }};
  }
  SnapshotView view{ViewsOf(model_.State()), ViewsOf(OptimizerState()), {}};
  for (TensorView& tensor : view.model) {
    tensor.forward_changes_it = model_.IsBuffer(tensor.name);
  }
  return view;
}

std::uint64_t StateView::Bytes() const {
  std::uint64_t bytes = 0;
  for (const std::vector<NamedTensor>& state : {model_.State(), OptimizerState()}) {
    for (const NamedTensor& item : state) {
      bytes += item.tensor.nbytes();
    }
  }
  return bytes;
}

Result<void> StateView::CopyFrom(const Snapshot& snapshot) {
  RETURN_IF_ERROR(CopyBack(snapshot.model, model_.State()));
  const bool scaled =
      std::any_of(snapshot.optimizer.begin(), snapshot.optimizer.end(),
                  [](const Tensor& tensor) { return tensor.name == GradientScale::kName; });
  // One that was trained without a scale goes on with a fresh one.
  return CopyBack(snapshot.optimizer, scaled ? OptimizerState() : optimizer_.state());
}

}  // namespace ddprun

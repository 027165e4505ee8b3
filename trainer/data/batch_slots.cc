#include "trainer/data/batch_slots.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace ddprun {
namespace {

at::Tensor RoomFor(std::int64_t samples, const Shape& shape, const at::TensorOptions& options) {
  Shape all = shape;
  all.insert(all.begin(), samples);
  return at::zeros(all, options);
}

Batch MakeBatch(const Task& task, std::size_t most, const at::TensorOptions& options) {
  const auto samples = static_cast<std::int64_t>(most);
  Batch batch;
  for (const Shape& shape : task.inputs) {
    batch.inputs.push_back(RoomFor(samples, shape, options.dtype(at::kFloat)));
  }
  if (task.classifies()) {
    batch.labels = RoomFor(samples, {}, options.dtype(at::kLong));
  } else {
    batch.targets = RoomFor(samples, task.target, options.dtype(at::kFloat));
  }
  return batch;
}

Batch FirstOf(const Batch& all, std::size_t count) {
  Batch some;
  ForEachTensor(all, some, [count](const at::Tensor& from, at::Tensor& to) {
    to = from.narrow(0, 0, static_cast<std::int64_t>(count));
  });
  return some;
}

}  // namespace

BatchSlots::BatchSlots(const Task& task, at::Device device, bool apart, std::size_t part,
                       std::size_t evaluation)
    : device_(device), apart_(apart) {
  const bool gpu = device.is_cuda();
  for (std::size_t i = 0; i < kSlots; ++i) {
    const std::size_t most = i + 1 == kSlots ? evaluation : part;
    host_[i] = MakeBatch(task, most, at::TensorOptions().pinned_memory(gpu));
    if (apart) {
      there_[i].batch = MakeBatch(task, most, at::TensorOptions().device(device));
    }
    if (gpu) {
      there_[i].arrived.emplace(device.type());
      there_[i].used.emplace(device.type());
    }
  }
  if (gpu) {
    copies_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }
}

BatchRoom BatchSlots::room(std::size_t slot) const {
  const Batch& batch = host_[slot];
  BatchRoom room;
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    room.inputs[i] = batch.inputs[i].mutable_data_ptr<float>();
  }
  if (batch.labels.defined()) {
    room.labels = batch.labels.mutable_data_ptr<std::int64_t>();
  } else {
    room.targets = batch.targets.mutable_data_ptr<float>();
  }
  return room;
}

std::size_t BatchSlots::most(std::size_t slot) const {
  return static_cast<std::size_t>(host_[slot].inputs[0].size(0));
}

Batch BatchSlots::Take(std::size_t slot, std::size_t count) {
  if (!apart_) {
    return FirstOf(host_[slot], count);
  }
  const bool evaluation = slot + 1 == kSlots;
  taken_ = &there_[evaluation ? slot : next_];
  if (!evaluation) {
    next_ = (next_ + 1) % (kSlots - 1);
  }
  Copy(host_[slot], *taken_, count);
  return FirstOf(taken_->batch, count);
}

void BatchSlots::Copy(const Batch& from, Place& place, std::size_t count) {
  const Batch source = FirstOf(from, count);
  Batch target = FirstOf(place.batch, count);
  const auto copy = [](const at::Tensor& one, at::Tensor& other) {
    other.copy_(one, /*non_blocking=*/true);
  };
  if (!copies_) {
    ForEachTensor(source, target, copy);
    return;
  }
  const c10::Stream computing = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  place.used->block(*copies_);  // Nothing before its first use.
  {
    const c10::StreamGuard on(*copies_);
    ForEachTensor(source, target, copy);
  }
  place.arrived->record(*copies_);
  place.arrived->block(computing);
}

void BatchSlots::Done() {
  if (!copies_) {
    return;
  }
  taken_->used->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  taken_->arrived->synchronize();
}

}  // namespace ddprun

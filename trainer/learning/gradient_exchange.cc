#include "trainer/learning/gradient_exchange.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <exception>
#include <span>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "common/check.h"
#include "trainer/profiler/recorder.h"

namespace ddprun {
namespace {

// As PyTorch does: a small first bucket lets the first all-reduce begin early.
constexpr std::size_t kFirstBucketBytes = std::size_t{1} << 20;

// All gradients together. Larger ones gain by an exchange while backward still runs.
constexpr std::size_t kMostAfterBackward = std::size_t{512} << 10;
static_assert(kMostAfterBackward <= SharedWorld::kMostSummed * sizeof(float));

// A bucket travels as 16-bit numbers, half the bytes: as PyTorch's fp16_compress_hook and
// bf16_compress_hook. Divided first, so that a sum of many ranks does not overflow.
class CompressedExchange
    : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  CompressedExchange(const c10::intrusive_ptr<c10d::ProcessGroup>& group, at::ScalarType type)
      : CppCommHookInterface(group), type_(type) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor whole = bucket.getBufferRef();
    at::Tensor small = whole.to(type_);
    small.div_(state_->getSize());
    std::vector<at::Tensor> tensors = {small};
    const auto arrived = state_->allreduce(tensors)->getFuture();
    return arrived->then(
        [whole, small](c10::ivalue::Future& future) {
          if (future.hasError()) {
            std::rethrow_exception(future.exception_ptr());
          }
          whole.copy_(small);
          return c10::IValue(whole);
        },
        c10::TensorType::get());
  }

 private:
  const at::ScalarType type_;
};

}  // namespace

GradientExchange::GradientExchange(std::vector<at::Tensor> parameters, TorchGroup& group,
                                   const Buckets& recorded, std::size_t bucket_bytes,
                                   Precision compression)
    : parameters_(std::move(parameters)), group_(group) {
  if (group.shared && compression == Precision::kFloat32 && Small(bucket_bytes)) {
    return;
  }
  const std::size_t first = std::min(kFirstBucketBytes, bucket_bytes);
  const std::vector<bool> sparse(parameters_.size(), false);
  Buckets initial = recorded;
  if (!UsableHere(recorded)) {
    initial = std::get<0>(
        c10d::compute_bucket_assignment_by_size(parameters_, {first, bucket_bytes}, sparse));
    std::reverse(initial.begin(), initial.end());  // Backward begins at the last layer.
  } else {
    buckets_ = recorded;
  }
  reducer_ = std::make_unique<c10d::Reducer>(
      parameters_, initial, group.group, sparse,
      /*bucket_bytes_cap=*/static_cast<std::int64_t>(bucket_bytes),
      /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true,
      std::unordered_map<std::size_t, std::string>{},
      /*first_bucket_bytes_cap=*/static_cast<std::int64_t>(first),
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<std::int64_t>{static_cast<std::int64_t>(first),
                                static_cast<std::int64_t>(bucket_bytes)});
  if (compression != Precision::kFloat32) {
    reducer_->register_comm_hook(std::make_unique<CompressedExchange>(
        group.group, compression == Precision::kFloat16 ? at::kHalf : at::kBFloat16));
  }
}

GradientExchange::~GradientExchange() = default;

bool GradientExchange::UsableHere(const Buckets& recorded) const {
  std::vector<int> seen(parameters_.size(), 0);
  std::size_t count = 0;
  for (const std::vector<std::size_t>& bucket : recorded) {
    for (const std::size_t index : bucket) {
      if (index >= seen.size() || seen[index]++ != 0) {
        return false;
      }
      ++count;
    }
    if (bucket.empty()) {
      return false;
    }
  }
  return count == seen.size();
}

bool GradientExchange::Small(std::size_t bucket_bytes) const {
  std::size_t bytes = 0;
  for (const at::Tensor& parameter : parameters_) {
    if (!parameter.is_cpu() || parameter.scalar_type() != at::kFloat) {
      return false;
    }
    bytes += parameter.nbytes();
  }
  return bytes <= std::min(kMostAfterBackward, bucket_bytes);
}

void GradientExchange::BeforeBackward() {
  if (reducer_) {
    reducer_->prepare_for_forward();
    reducer_->prepare_for_backward({});
  }
}

void GradientExchange::AfterBackward() {
  if (reducer_) {
    return;
  }
  const NamedRange range("average");
  std::vector<std::span<float>> gradients;
  gradients.reserve(parameters_.size());
  for (const at::Tensor& parameter : parameters_) {
    at::Tensor& gradient = parameter.mutable_grad();
    gradient = gradient.defined() ? gradient.contiguous() : at::zeros_like(parameter);
    gradients.emplace_back(gradient.mutable_data_ptr<float>(), gradient.numel());
  }
  group_.group->Enter();
  const auto factor = static_cast<float>(1.0 / group_.group->getSize());
  if (const Result<void> done = group_.shared->Sum(gradients, factor, group_.across); !done) {
    std::rethrow_exception(ExceptionFor(done.error()));
  }
}

// Acts once, after the first step: buckets in the order in which gradients became ready, agreed
// upon by all ranks.
void GradientExchange::AfterStep() {
  if (!reducer_ || !reducer_->rebuild_buckets()) {
    return;
  }
  buckets_.clear();
  for (const c10d::GradBucket& bucket : reducer_->get_grad_buckets()) {
    std::vector<std::size_t>& indices = buckets_.emplace_back();
    for (const at::Tensor& parameter : bucket.getParameters()) {
      const auto found =
          std::find_if(parameters_.begin(), parameters_.end(),
                       [&](const at::Tensor& candidate) { return candidate.is_same(parameter); });
      CHECK(found != parameters_.end());
      indices.push_back(static_cast<std::size_t>(found - parameters_.begin()));
    }
  }
}

}  // namespace ddprun

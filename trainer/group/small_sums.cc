#include "trainer/group/small_sums.h"

#include <ATen/ATen.h>

#include <exception>
#include <utility>
#include <vector>

#include "trainer/group/combine.h"
#include "trainer/group/torch_group.h"

namespace ddprun {
namespace {

std::vector<at::Tensor> TensorOf(std::span<float> numbers) {
  return {at::from_blob(numbers.data(), {static_cast<std::int64_t>(numbers.size())}, at::kFloat)};
}

}  // namespace

SmallSums::SmallSums(std::shared_ptr<SharedWorld> world, std::uint32_t ranks, Nodes nodes)
    : world_(std::move(world)), factor_(static_cast<float>(1.0 / ranks)), nodes_(std::move(nodes)) {
  static_assert(kMostBytes <= SharedWorld::kMostSummed * sizeof(float));
  if (nodes_.count > 1) {
    across_ = [this](std::span<float> sum) { return AddAcross(sum); };
  }
}

void SmallSums::Average(SharedWorld::Tensors tensors) {
  if (const Result<void> done = world_->Sum(tensors, factor_, across_); !done) {
    std::rethrow_exception(ExceptionFor(done.error()));
  }
}

Result<void> SmallSums::AddAcross(std::span<float> sum) {
  try {
    std::vector<at::Tensor> own = TensorOf(sum);
    if (nodes_.count > 2) {
      nodes_.leaders->allreduce(own)->wait();
      return {};
    }
    from_peer_.resize(sum.size());
    std::vector<at::Tensor> other = TensorOf(from_peer_);
    const int peer = nodes_.own == 0 ? 1 : 0;
    const auto received = nodes_.leaders->recv(other, peer, /*tag=*/0);
    nodes_.leaders->send(own, peer, /*tag=*/0)->wait();
    received->wait();
    Sum(std::vector<const float*>{sum.data(), from_peer_.data()}, sum.data(), sum.size());
    return {};
  } catch (const std::exception&) {
    return DescribeCurrentException();
  }
}

}  // namespace ddprun

#include "trainer/group/across_nodes.h"

#include <ATen/ATen.h>

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "trainer/group/combine.h"
#include "trainer/group/shm_backend.h"
#include "trainer/group/torch_group.h"

namespace ddprun {
namespace {

std::vector<at::Tensor> BytesAs(at::ScalarType type, std::span<std::byte> bytes) {
  return {at::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size() / elementSize(type))},
                        type)};
}

void Exchange(c10d::Backend& leaders, std::span<std::byte> own, std::span<std::byte> other) {
  std::vector<at::Tensor> sent = BytesAs(at::kByte, own);
  std::vector<at::Tensor> received = BytesAs(at::kByte, other);
  const int peer = 1 - leaders.getRank();
  const auto arrives = leaders.recv(received, peer, /*tag=*/0);
  leaders.send(sent, peer, /*tag=*/0)->wait();
  arrives->wait();
}

}  // namespace

SharedWorld::Across AcrossNodes(c10::intrusive_ptr<c10d::Backend> leaders) {
  auto from_peer = std::make_shared<std::vector<std::byte>>();
  return [leaders, from_peer](Element element, std::span<std::byte> sum) -> Result<void> {
    try {
      if (leaders->getSize() > 2) {
        std::vector<at::Tensor> numbers = BytesAs(TypeOf(element), sum);
        leaders->allreduce(numbers)->wait();
        return {};
      }
      from_peer->resize(sum.size());
      Exchange(*leaders, sum, *from_peer);
      // Both have the same bits: a + b is b + a.
      Add(element, sum.data(), from_peer->data(), sum.size() / SizeOf(element));
      return {};
    } catch (const std::exception&) {
      return DescribeCurrentException();
    }
  };
}

c10::intrusive_ptr<c10d::Work> GlooOfNodes::allreduce(std::vector<at::Tensor>& tensors,
                                                      const c10d::AllreduceOptions& options) {
  const bool by_nodes = sums_ && options.reduceOp == c10d::ReduceOp::SUM && tensors.size() == 1 &&
                        tensors.front().is_cpu() && ShmReduces(tensors.front().scalar_type()) &&
                        tensors.front().is_non_overlapping_and_dense();
  return by_nodes ? sums_->allreduce(tensors, options)
                  : ProcessGroupGloo::allreduce(tensors, options);
}

}  // namespace ddprun

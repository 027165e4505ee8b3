#include "trainer/group/small_sums.h"

#include <exception>
#include <utility>

#include "trainer/group/torch_group.h"

namespace ddprun {

SmallSums::SmallSums(std::shared_ptr<SharedWorld> world, std::uint32_t ranks,
                     SharedWorld::Across across)
    : world_(std::move(world)),
      factor_(static_cast<float>(1.0 / ranks)),
      across_(std::move(across)) {
  static_assert(kMostBytes <= SharedWorld::kMostSummed * sizeof(float));
}

void SmallSums::Average(SharedWorld::Tensors tensors) {
  if (const Result<void> done = world_->Sum(tensors, factor_, across_); !done) {
    std::rethrow_exception(ExceptionFor(done.error()));
  }
}

}  // namespace ddprun

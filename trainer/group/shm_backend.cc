#include "trainer/group/shm_backend.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/task_queue.h"
#include "trainer/group/torch_group.h"

namespace ddprun {
namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;
using Collective = std::function<Result<void>(SharedWorld&)>;

constexpr std::size_t kInlineBytes = std::size_t{512} << 10;

// By Element.
constexpr at::ScalarType kTypes[] = {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16};

const at::Tensor& TheOne(const Tensors& tensors) {
  TORCH_CHECK(tensors.size() == 1, "the shared-memory backend takes one tensor per call");
  const at::Tensor& tensor = tensors.front();
  TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
                  tensor.is_non_overlapping_and_dense(),
              "the shared-memory backend takes only dense tensors on the CPU");
  return tensor;
}

std::span<std::byte> BytesOf(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

class ShmWork : public c10d::Work {
 public:
  ShmWork(int rank, c10d::OpType type, const char* title, Tensors tensors, Collective collective)
      : Work(rank, type, title, tensors),
        tensors_(std::move(tensors)),
        collective_(std::move(collective)),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {}

  void Run(SharedWorld& world) {
    const Result<void> done = std::exchange(collective_, {})(world);
    if (done) {
      finish();
      future_->markCompleted(c10::IValue(tensors_));
    } else {
      const std::exception_ptr exception = ExceptionFor(done.error());
      finish(exception);
      future_->setError(exception);
    }
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  Tensors result() override { return tensors_; }

 private:
  const Tensors tensors_;
  Collective collective_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
};

class ShmBackend : public c10d::Backend {
 public:
  ShmBackend(std::shared_ptr<SharedWorld> world, SharedWorld::Across across)
      : Backend(static_cast<int>(world->rank()), static_cast<int>(world->size())),
        world_(std::move(world)),
        across_(std::move(across)) {}
  ~ShmBackend() override { world_->Abort(); }

  const std::string getBackendName() const override { return "shm"; }
  void abort() override { world_->Abort(); }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const at::Tensor tensor = TheOne(tensors);
    const at::ScalarType type = tensor.scalar_type();
    TORCH_CHECK(options.reduceOp == c10d::ReduceOp::SUM && ShmReduces(type),
                "the shared-memory backend only adds up floating-point numbers");
    const auto element = static_cast<Element>(std::ranges::find(kTypes, type) - kTypes);
    return Start(c10d::OpType::ALLREDUCE, "shm:all_reduce", tensors,
                 [tensor, element, across = across_](SharedWorld& world) {
                   return world.AllReduce(element, BytesOf(tensor), across);
                 });
  }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor tensor = TheOne(tensors);
    const auto root = static_cast<std::size_t>(options.rootRank);
    return Start(
        c10d::OpType::BROADCAST, "shm:broadcast", tensors,
        [tensor, root](SharedWorld& world) { return world.Broadcast(BytesOf(tensor), root); });
  }

  WorkPointer barrier(const c10d::BarrierOptions&) override {
    return Start(c10d::OpType::BARRIER, "shm:barrier", {},
                 [](SharedWorld& world) { return world.Barrier(); });
  }

 private:
  WorkPointer Start(c10d::OpType type, const char* title, const Tensors& tensors,
                    Collective collective) {
    auto work =
        c10::make_intrusive<ShmWork>(getRank(), type, title, tensors, std::move(collective));
    // The caller's thread is the only one that gives works, so none comes between.
    const bool small = tensors.empty() || tensors.front().nbytes() <= kInlineBytes;
    const bool now =
        (small && thread_.Idle()) || !thread_.Post([world = world_, work] { work->Run(*world); });
    if (now) {
      work->Run(*world_);
    }
    return work;
  }

  const std::shared_ptr<SharedWorld> world_;
  const SharedWorld::Across across_;                           // None: the world has all ranks.
  TaskQueue thread_{std::numeric_limits<std::size_t>::max()};  // Takes works in their order.
};

}  // namespace

bool ShmReduces(at::ScalarType type) {
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

at::ScalarType TypeOf(Element element) {
  return kTypes[static_cast<std::size_t>(element)];
}

c10::intrusive_ptr<c10d::Backend> MakeShmBackend(std::shared_ptr<SharedWorld> world,
                                                 SharedWorld::Across across) {
  return c10::make_intrusive<ShmBackend>(std::move(world), std::move(across));
}

}  // namespace ddprun

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
constexpr at::ScalarType kTypes[] = {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16,
                                     at::kLong,   at::kInt,   at::kChar, at::kByte};

const at::ScalarType* Find(at::ScalarType type) {
  return std::ranges::find(kTypes, type == at::kBool ? at::kByte : type);
}

Element ElementOf(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  TORCH_CHECK(ShmReduces(type), "the shared-memory backend cannot reduce ", type, " tensors");
  return static_cast<Element>(Find(type) - kTypes);
}

Reduction ReductionOf(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  const auto of = [&](ReduceOp ours) {
    const Reduction reduction{ours, ElementOf(tensor)};
    TORCH_CHECK(Defined(reduction), "bitwise reductions need integers");
    return reduction;
  };
  switch (op) {
    case c10d::ReduceOp::SUM:
      return of(ReduceOp::kSum);
    case c10d::ReduceOp::AVG:
      return of(ReduceOp::kAvg);
    case c10d::ReduceOp::PRODUCT:
      return of(ReduceOp::kProduct);
    case c10d::ReduceOp::MIN:
      return of(ReduceOp::kMin);
    case c10d::ReduceOp::MAX:
      return of(ReduceOp::kMax);
    case c10d::ReduceOp::BAND:
      return of(ReduceOp::kBand);
    case c10d::ReduceOp::BOR:
      return of(ReduceOp::kBor);
    case c10d::ReduceOp::BXOR:
      return of(ReduceOp::kBxor);
    default:
      TORCH_CHECK(false, "the shared-memory backend does not support this reduction");
  }
}

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
  ShmWork(int rank, c10d::OpType type, const char* title, Tensors inputs, Tensors results,
          Collective collective)
      : Work(rank, type, title, inputs),
        results_(std::move(results)),
        collective_(std::move(collective)),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {}

  void Run(SharedWorld& world) {
    const Result<void> done = std::exchange(collective_, {})(world);
    if (done) {
      finish();
      future_->markCompleted(c10::IValue(results_));
    } else {
      const std::exception_ptr exception = ExceptionFor(done.error());
      finish(exception);
      future_->setError(exception);
    }
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  Tensors result() override { return results_; }

 private:
  const Tensors results_;
  Collective collective_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
};

using ShmWorkPointer = c10::intrusive_ptr<ShmWork>;

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
    const Reduction reduction = ReductionOf(options.reduceOp, tensor);
    return Start(c10d::OpType::ALLREDUCE, "shm:all_reduce", tensors, tensors,
                 [tensor, reduction, across = across_](SharedWorld& world) {
                   return world.AllReduce(reduction, BytesOf(tensor), across);
                 });
  }

  // Every rank gets what only the root is promised.
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    const at::Tensor tensor = TheOne(tensors);
    const Reduction reduction = ReductionOf(options.reduceOp, tensor);
    return Start(c10d::OpType::REDUCE, "shm:reduce", tensors, tensors,
                 [tensor, reduction](SharedWorld& world) {
                   return world.AllReduce(reduction, BytesOf(tensor));
                 });
  }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor tensor = TheOne(tensors);
    const auto root = static_cast<std::size_t>(options.rootRank);
    return Start(
        c10d::OpType::BROADCAST, "shm:broadcast", tensors, tensors,
        [tensor, root](SharedWorld& world) { return world.Broadcast(BytesOf(tensor), root); });
  }

  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions&) override {
    const at::Tensor own = TheOne(inputs);
    TORCH_CHECK(outputs.size() == 1 && outputs[0].size() == world_->size(),
                "an all-gather needs one output per rank");
    const Tensors all = outputs[0];
    const at::Tensor flat =
        at::empty({static_cast<std::int64_t>(all.size()), own.numel()}, own.options());
    return Start(c10d::OpType::ALLGATHER, "shm:all_gather", inputs, all,
                 [own, all, flat](SharedWorld& world) {
                   Result<void> done = world.AllGather(BytesOf(own), BytesOf(flat));
                   for (std::size_t rank = 0; done && rank < all.size(); ++rank) {
                     const at::Tensor& output = all[rank];
                     output.copy_(flat[static_cast<std::int64_t>(rank)].view_as(output));
                   }
                   return done;
                 });
  }

  WorkPointer barrier(const c10d::BarrierOptions&) override {
    return Start(c10d::OpType::BARRIER, "shm:barrier", {}, {},
                 [](SharedWorld& world) { return world.Barrier(); });
  }

 private:
  WorkPointer Start(c10d::OpType type, const char* title, const Tensors& inputs,
                    const Tensors& results, Collective collective) {
    auto work = c10::make_intrusive<ShmWork>(getRank(), type, title, inputs, results,
                                             std::move(collective));
    // The caller's thread is the only one that gives works, so none comes between.
    const bool small = inputs.empty() || inputs.front().nbytes() <= kInlineBytes;
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
  return Find(type) != std::end(kTypes);
}

at::ScalarType TypeOf(Element element) {
  return kTypes[static_cast<std::size_t>(element)];
}

c10::intrusive_ptr<c10d::Backend> MakeShmBackend(std::shared_ptr<SharedWorld> world,
                                                 SharedWorld::Across across) {
  return c10::make_intrusive<ShmBackend>(std::move(world), std::move(across));
}

}  // namespace ddprun

#include "trainer/group/torch_collectives.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/group/torch_group.h"

namespace ddprun {
namespace {

using ByteSpan = std::span<std::byte>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

at::ScalarType TypeOf(Element element) {
  switch (element) {
    case Element::kF64:
      return at::kDouble;
    case Element::kF32:
      return at::kFloat;
    case Element::kF16:
      return at::kHalf;
    case Element::kBF16:
      return at::kBFloat16;
    case Element::kI64:
      return at::kLong;
    case Element::kI32:
      return at::kInt;
    case Element::kI8:
      return at::kChar;
    case Element::kU8:
      return at::kByte;
  }
  return at::kByte;
}

c10d::ReduceOp OperationOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::kProduct:
      return c10d::ReduceOp::PRODUCT;
    case ReduceOp::kMin:
      return c10d::ReduceOp::MIN;
    case ReduceOp::kMax:
      return c10d::ReduceOp::MAX;
    case ReduceOp::kBand:
      return c10d::ReduceOp::BAND;
    case ReduceOp::kBor:
      return c10d::ReduceOp::BOR;
    case ReduceOp::kBxor:
      return c10d::ReduceOp::BXOR;
    case ReduceOp::kAvg:
      return c10d::ReduceOp::AVG;
  }
  return c10d::ReduceOp::SUM;
}

// The callers' bytes as tensors: where they are, or for NCCL copies on the GPU.
class Stage {
 public:
  explicit Stage(ProcessGroup& group) : torch_(*group.torch()) {}

  at::Tensor TensorOf(ByteSpan bytes, at::ScalarType type = at::kByte) {
    const auto count = static_cast<std::int64_t>(bytes.size() / c10::elementSize(type));
    const at::Tensor here = at::from_blob(bytes.data(), {count}, type);
    if (torch_.device.is_cpu()) {
      return here;
    }
    copies_.push_back({here, here.to(torch_.device)});
    return copies_.back().there;
  }
  std::vector<at::Tensor> SharesOf(ByteSpan all, std::size_t size,
                                   at::ScalarType type = at::kByte) {
    return TensorOf(all, type).chunk(static_cast<std::int64_t>(size));
  }

  // Waits for the work that `start` begins, alone on a GPU: what came before is done by then.
  template <class Start>
  void Run(Start start) {
    if (torch_.device.is_cpu()) {
      start(*torch_.group)->wait();
      return;
    }
    const c10::Stream stream =
        c10::impl::VirtualGuardImpl(torch_.device.type()).getStream(torch_.device);
    stream.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    start(*torch_.group)->wait();
    stream.synchronize();
    torch_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  // The results, to where the callers look for them.
  void Fetch() {
    for (const Copy& copy : copies_) {
      copy.here.copy_(copy.there);
    }
  }
  at::Device device() const { return torch_.device; }

 private:
  struct Copy {
    at::Tensor here;
    at::Tensor there;
  };
  TorchGroup& torch_;
  std::vector<Copy> copies_;
};

// Starts the collective and waits for it; what it throws is an error.
template <class Start>
Result<void> Done(ProcessGroup& group, Stage& stage, const std::string& doing, Start start) {
  try {
    stage.Run(start);
    stage.Fetch();
    return {};
  } catch (const std::exception&) {
    return CollectiveError(group.rank(), doing);
  }
}

class WorkTransfer : public Transfer {
 public:
  WorkTransfer(ProcessGroup& group, std::string doing, ByteSpan bytes)
      : group_(group), doing_(std::move(doing)), stage_(group), tensors_{stage_.TensorOf(bytes)} {}

  // Throws nothing: an error waits for Wait.
  template <class Begin>
  void Start(Begin begin) {
    try {
      work_ = begin(*group_.torch()->group, tensors_);
    } catch (const std::exception&) {
      error_ = CollectiveError(group_.rank(), doing_);
    }
  }
  Result<void> Wait() override {
    if (error_) {
      return *error_;
    }
    return Done(group_, stage_, doing_, [&](c10d::ProcessGroup&) { return work_; });
  }

 private:
  ProcessGroup& group_;
  const std::string doing_;
  Stage stage_;
  std::vector<at::Tensor> tensors_;
  WorkPointer work_;
  std::optional<Error> error_;
};

class GroupWire : public Wire {
 public:
  explicit GroupWire(ProcessGroup& group) : group_(group) {}
  std::size_t rank() const override { return group_.rank(); }
  std::size_t size() const override { return group_.size(); }

  std::unique_ptr<Transfer> StartSend(std::span<const std::byte> bytes, std::size_t to) override {
    // Only read from; libtorch has no tensor of constants.
    const ByteSpan data(const_cast<std::byte*>(bytes.data()), bytes.size());
    auto transfer =
        std::make_unique<WorkTransfer>(group_, "send to rank " + std::to_string(to), data);
    transfer->Start([&](c10d::ProcessGroup& torch, std::vector<at::Tensor>& tensors) {
      return torch.send(tensors, static_cast<int>(to), 0);
    });
    return transfer;
  }
  std::unique_ptr<Transfer> StartRecv(ByteSpan bytes, std::size_t from) override {
    auto transfer =
        std::make_unique<WorkTransfer>(group_, "receive from rank " + std::to_string(from), bytes);
    transfer->Start([&](c10d::ProcessGroup& torch, std::vector<at::Tensor>& tensors) {
      return torch.recv(tensors, static_cast<int>(from), 0);
    });
    return transfer;
  }

 private:
  ProcessGroup& group_;
};

}  // namespace

Result<void> TorchCollectives::Barrier() {
  Stage stage(group_);
  return Done(group_, stage, "meet at a barrier", [&](c10d::ProcessGroup& torch) {
    c10d::BarrierOptions options;
    options.device = stage.device();  // Else the CPU's backend would meet.
    return torch.barrier(options);
  });
}

Result<void> TorchCollectives::Broadcast(ByteSpan data, std::size_t root) {
  Stage stage(group_);
  std::vector<at::Tensor> tensors = {stage.TensorOf(data)};
  return Done(group_, stage, "broadcast", [&](c10d::ProcessGroup& torch) {
    c10d::BroadcastOptions options;
    options.rootRank = static_cast<std::int64_t>(root);
    return torch.broadcast(tensors, options);
  });
}

Result<void> TorchCollectives::AllReduce(const Reduction& reduction, ByteSpan data) {
  Stage stage(group_);
  std::vector<at::Tensor> tensors = {stage.TensorOf(data, TypeOf(reduction.element))};
  return Done(group_, stage, "all-reduce", [&](c10d::ProcessGroup& torch) {
    c10d::AllreduceOptions options;
    options.reduceOp = OperationOf(reduction.op);
    return torch.allreduce(tensors, options);
  });
}

Result<void> TorchCollectives::Reduce(const Reduction& reduction, ByteSpan data, std::size_t root) {
  Stage stage(group_);
  std::vector<at::Tensor> tensors = {stage.TensorOf(data, TypeOf(reduction.element))};
  return Done(group_, stage, "reduce", [&](c10d::ProcessGroup& torch) {
    c10d::ReduceOptions options;
    options.reduceOp = OperationOf(reduction.op);
    options.rootRank = static_cast<std::int64_t>(root);
    return torch.reduce(tensors, options);
  });
}

Result<void> TorchCollectives::Scatter(ByteSpan all, ByteSpan own, std::size_t root) {
  Stage stage(group_);
  std::vector<at::Tensor> out = {stage.TensorOf(own)};
  std::vector<std::vector<at::Tensor>> in;
  if (group_.rank() == root) {
    in.push_back(stage.SharesOf(all, group_.size()));
  }
  return Done(group_, stage, "scatter", [&](c10d::ProcessGroup& torch) {
    c10d::ScatterOptions options;
    options.rootRank = static_cast<std::int64_t>(root);
    return torch.scatter(out, in, options);
  });
}

Result<void> TorchCollectives::Gather(ByteSpan own, ByteSpan all, std::size_t root) {
  Stage stage(group_);
  std::vector<at::Tensor> in = {stage.TensorOf(own)};
  std::vector<std::vector<at::Tensor>> out;
  if (group_.rank() == root) {
    out.push_back(stage.SharesOf(all, group_.size()));
  }
  return Done(group_, stage, "gather", [&](c10d::ProcessGroup& torch) {
    c10d::GatherOptions options;
    options.rootRank = static_cast<std::int64_t>(root);
    return torch.gather(out, in, options);
  });
}

Result<void> TorchCollectives::AllGather(ByteSpan own, ByteSpan all) {
  Stage stage(group_);
  std::vector<at::Tensor> in = {stage.TensorOf(own)};
  std::vector<std::vector<at::Tensor>> out = {stage.SharesOf(all, group_.size())};
  return Done(group_, stage, "all-gather",
              [&](c10d::ProcessGroup& torch) { return torch.allgather(out, in); });
}

Result<void> TorchCollectives::ReduceScatter(const Reduction& reduction, ByteSpan all,
                                             ByteSpan own) {
  Stage stage(group_);
  const at::ScalarType type = TypeOf(reduction.element);
  std::vector<at::Tensor> out = {stage.TensorOf(own, type)};
  std::vector<std::vector<at::Tensor>> in = {stage.SharesOf(all, group_.size(), type)};
  return Done(group_, stage, "reduce-scatter", [&](c10d::ProcessGroup& torch) {
    c10d::ReduceScatterOptions options;
    options.reduceOp = OperationOf(reduction.op);
    return torch.reduce_scatter(out, in, options);
  });
}

Result<void> TorchCollectives::AllToAll(ByteSpan in, ByteSpan out) {
  Stage stage(group_);
  std::vector<at::Tensor> from = stage.SharesOf(in, group_.size());
  std::vector<at::Tensor> to = stage.SharesOf(out, group_.size());
  return Done(group_, stage, "all-to-all",
              [&](c10d::ProcessGroup& torch) { return torch.alltoall(to, from); });
}

std::optional<double> TorchCollectives::Seconds() const {
  const TorchGroup& torch = *group_.torch();
  return torch.device.is_cpu() ? std::nullopt : std::optional(torch.seconds);
}

Result<std::int64_t> TorchCollectives::Count(const std::string& name, std::int64_t more) {
  try {
    return group_.torch()->group->getStore()->add(name, more);
  } catch (const std::exception&) {
    return CollectiveError(group_.rank(), "count in the store");
  }
}

std::unique_ptr<Wire> TorchWire(ProcessGroup& group) {
  return std::make_unique<GroupWire>(group);
}

}  // namespace ddprun

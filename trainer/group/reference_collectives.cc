#include "trainer/group/reference_collectives.h"

#include <ATen/Functions.h>

#include <utility>
#include <vector>

#include "common/check.h"

namespace ddprun {
namespace {

using Group = c10d::ProcessGroup;

// Several transfers; the tensors live until all are done.
class Transfers {
 public:
  explicit Transfers(Group& group) : group_(group) {}
  void Send(const at::Tensor& data, std::int64_t to) {
    if (data.numel() > 0) {
      std::vector<at::Tensor> tensors = {data};
      started_.emplace_back(group_.send(tensors, static_cast<int>(to), 0), data);
    }
  }
  void Recv(const at::Tensor& data, std::int64_t from) {
    if (data.numel() > 0) {
      std::vector<at::Tensor> tensors = {data};
      started_.emplace_back(group_.recv(tensors, static_cast<int>(from), 0), data);
    }
  }
  void Wait() {
    for (const auto& [work, data] : std::exchange(started_, {})) {
      work->wait();
    }
  }

 private:
  Group& group_;
  std::vector<std::pair<c10::intrusive_ptr<c10d::Work>, at::Tensor>> started_;
};

void Combine(ReduceOperation operation, const at::Tensor& into, const at::Tensor& other) {
  switch (operation) {
    case ReduceOperation::SUM:
    case ReduceOperation::AVG:
      into.add_(other);
      return;
    case ReduceOperation::PRODUCT:
      into.mul_(other);
      return;
    case ReduceOperation::MIN:
      into.copy_(at::minimum(into, other));
      return;
    case ReduceOperation::MAX:
      into.copy_(at::maximum(into, other));
      return;
    case ReduceOperation::BAND:
      into.bitwise_and_(other);
      return;
    case ReduceOperation::BOR:
      into.bitwise_or_(other);
      return;
    case ReduceOperation::BXOR:
      into.bitwise_xor_(other);
      return;
    default:
      CHECK(false);
  }
}

// An average is a sum, divided once all ranks are in it.
void Average(ReduceOperation operation, const at::Tensor& data, std::int64_t ranks) {
  if (operation == ReduceOperation::AVG) {
    data.div_(ranks);
  }
}

// Share `index` of data divided among the ranks; some may be empty.
at::Tensor Share(const Group& group, const at::Tensor& data, std::int64_t index) {
  const std::int64_t begin = data.numel() * index / group.getSize();
  const std::int64_t end = data.numel() * (index + 1) / group.getSize();
  return data.narrow(0, begin, end - begin);
}

// To the next rank and from the previous one. Without overlap even ranks send first, so that no
// round of a ring can stand still, also where a send waits for its receiver.
void Pass(Group& group, Style style, const at::Tensor& out, const at::Tensor& in) {
  const int size = group.getSize();
  const int next = (group.getRank() + 1) % size;
  const int previous = (group.getRank() + size - 1) % size;
  if (style == Style::kOverlapped) {
    SendRecv(group, out, next, in, previous);
  } else if (group.getRank() % 2 == 0) {
    Send(group, out, next);
    Recv(group, in, previous);
  } else {
    Recv(group, in, previous);
    Send(group, out, next);
  }
}

// After it share (rank + 1) % size is complete on this rank.
void RingReduceScatter(Group& group, Style style, ReduceOperation operation,
                       const at::Tensor& data) {
  const int size = group.getSize();
  const int rank = group.getRank();
  const at::Tensor incoming = at::empty_like(Share(group, data, size - 1));  // The largest.
  for (int round = 0; round + 1 < size; ++round) {
    const at::Tensor into = Share(group, data, (rank + 2 * size - round - 1) % size);
    const at::Tensor in = incoming.narrow(0, 0, into.numel());
    Pass(group, style, Share(group, data, (rank + size - round) % size), in);
    Combine(operation, into, in);
  }
  Average(operation, Share(group, data, (rank + 1) % size), size);
}

// In rank order, also if another rank's message comes first.
void CollectAtRoot(Group& group, Style style, ReduceOperation operation, const at::Tensor& data) {
  const int size = group.getSize();
  std::vector<at::Tensor> all;
  Transfers transfers(group);
  for (int rank = 0; rank < size; ++rank) {
    all.push_back(rank == group.getRank() ? data : at::empty_like(data));
    if (rank != group.getRank() && style == Style::kOverlapped) {
      transfers.Recv(all.back(), rank);
    }
  }
  transfers.Wait();
  at::Tensor sum;
  for (int rank = 0; rank < size; ++rank) {
    if (rank != group.getRank() && style == Style::kBlocking) {
      Recv(group, all[rank], rank);
    }
    if (rank == 0) {
      sum = all[0].clone();
    } else {
      Combine(operation, sum, all[rank]);
    }
  }
  Average(operation, sum, size);
  data.copy_(sum);
}

}  // namespace

void Send(Group& group, const at::Tensor& data, std::int64_t to) {
  Transfers one(group);
  one.Send(data, to);
  one.Wait();
}

void Recv(Group& group, const at::Tensor& data, std::int64_t from) {
  Transfers one(group);
  one.Recv(data, from);
  one.Wait();
}

void SendRecv(Group& group, const at::Tensor& out, std::int64_t to, const at::Tensor& in,
              std::int64_t from) {
  Transfers both(group);
  both.Recv(in, from);
  both.Send(out, to);
  both.Wait();
}

void ReduceNaive(Group& group, Style style, ReduceOperation operation, const at::Tensor& data,
                 std::int64_t root) {
  if (group.getRank() != root) {
    Send(group, data, root);
  } else {
    CollectAtRoot(group, style, operation, data);
  }
}

void AllReduceNaive(Group& group, Style style, ReduceOperation operation, const at::Tensor& data) {
  ReduceNaive(group, style, operation, data, 0);
  if (group.getRank() != 0) {
    Recv(group, data, 0);
    return;
  }
  Transfers transfers(group);
  for (int rank = 1; rank < group.getSize(); ++rank) {
    transfers.Send(data, rank);
    if (style == Style::kBlocking) {
      transfers.Wait();
    }
  }
  transfers.Wait();
}

void ReduceRing(Group& group, Style style, ReduceOperation operation, const at::Tensor& data,
                std::int64_t root) {
  RingReduceScatter(group, style, operation, data);
  const int size = group.getSize();
  if (group.getRank() != root) {
    Send(group, Share(group, data, (group.getRank() + 1) % size), root);
    return;
  }
  Transfers transfers(group);
  for (int step = 1; step < size; ++step) {
    const std::int64_t from = (root + step) % size;
    transfers.Recv(Share(group, data, (from + 1) % size), from);
    if (style == Style::kBlocking) {
      transfers.Wait();
    }
  }
  transfers.Wait();
}

void AllReduceRing(Group& group, Style style, ReduceOperation operation, const at::Tensor& data) {
  RingReduceScatter(group, style, operation, data);
  const int size = group.getSize();
  const int rank = group.getRank();
  for (int round = 0; round + 1 < size; ++round) {
    Pass(group, style, Share(group, data, (rank + 1 + size - round) % size),
         Share(group, data, (rank + size - round) % size));
  }
}

void AllToAll(Group& group, const at::Tensor& in, const at::Tensor& out) {
  const int size = group.getSize();
  const int rank = group.getRank();
  CHECK(in.numel() == out.numel() && in.numel() % size == 0);
  Transfers transfers(group);
  for (int step = 1; step < size; ++step) {
    const int from = (rank + size - step) % size;
    const int to = (rank + step) % size;
    transfers.Recv(Share(group, out, from), from);
    transfers.Send(Share(group, in, to), to);
  }
  Share(group, out, rank).copy_(Share(group, in, rank));
  transfers.Wait();
}

void ReduceScatter(Group& group, ReduceOperation operation, const at::Tensor& in,
                   const at::Tensor& out) {
  CHECK(in.numel() == out.numel() * group.getSize());
  const at::Tensor shares = at::empty_like(in);
  AllToAll(group, in, shares);
  out.copy_(Share(group, shares, 0));
  for (int rank = 1; rank < group.getSize(); ++rank) {
    Combine(operation, out, Share(group, shares, rank));
  }
  Average(operation, out, group.getSize());
}

void LibraryReduce(Group& group, ReduceOperation operation, const at::Tensor& data,
                   std::int64_t root) {
  std::vector<at::Tensor> tensors = {data};
  c10d::ReduceOptions options;
  options.reduceOp = operation;
  options.rootRank = root;
  group.reduce(tensors, options)->wait();
}

void LibraryAllReduce(Group& group, ReduceOperation operation, const at::Tensor& data) {
  std::vector<at::Tensor> tensors = {data};
  c10d::AllreduceOptions options;
  options.reduceOp = operation;
  group.allreduce(tensors, options)->wait();
}

}  // namespace ddprun

#include "trainer/group/reference_collectives.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/check.h"

namespace ddprun {
namespace {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// Several transfers; the first error counts, but all are waited for.
class Transfers {
 public:
  explicit Transfers(Wire& wire) : wire_(wire) {}

  void Send(ConstBytes bytes, std::size_t to) {
    if (!bytes.empty()) {
      started_.push_back(wire_.StartSend(bytes, to));
    }
  }
  void Recv(Bytes bytes, std::size_t from) {
    if (!bytes.empty()) {
      started_.push_back(wire_.StartRecv(bytes, from));
    }
  }
  Result<void> Wait() {
    Result<void> all;
    for (const std::unique_ptr<Transfer>& transfer : std::exchange(started_, {})) {
      if (Result<void> one = transfer->Wait(); !one && all) {
        all = std::move(one);
      }
    }
    return all;
  }

 private:
  Wire& wire_;
  std::vector<std::unique_ptr<Transfer>> started_;
};

void CombineBytes(const Reduction& reduction, Bytes into, ConstBytes other) {
  Combine(reduction, into.data(), other.data(), into.size() / SizeOf(reduction.element));
}

void AverageBytes(const Reduction& reduction, Bytes data, std::size_t ranks) {
  Average(reduction, data.data(), data.size() / SizeOf(reduction.element), ranks);
}

// Share `index` of data divided among the ranks, whole elements each; some may be empty.
Bytes Share(const Wire& wire, const Reduction& reduction, Bytes data, std::size_t index) {
  const std::size_t width = SizeOf(reduction.element);
  const std::size_t count = data.size() / width;
  const std::size_t begin = count * index / wire.size();
  const std::size_t end = count * (index + 1) / wire.size();
  return data.subspan(begin * width, (end - begin) * width);
}

// To the next rank and from the previous one. Without overlap even ranks send first, so that no
// round of a ring can stand still, also where a send waits for its receiver.
Result<void> Pass(Wire& wire, Style style, ConstBytes out, Bytes in) {
  const std::size_t next = (wire.rank() + 1) % wire.size();
  const std::size_t previous = (wire.rank() + wire.size() - 1) % wire.size();
  if (style == Style::kOverlapped) {
    return SendRecv(wire, out, next, in, previous);
  }
  if (wire.rank() % 2 == 0) {
    RETURN_IF_ERROR(Send(wire, out, next));
    return Recv(wire, in, previous);
  }
  RETURN_IF_ERROR(Recv(wire, in, previous));
  return Send(wire, out, next);
}

// After it share (rank + 1) % size is complete on this rank.
Result<void> RingReduceScatter(Wire& wire, Style style, const Reduction& reduction, Bytes data) {
  const std::size_t size = wire.size();
  std::vector<std::byte> incoming(Share(wire, reduction, data, size - 1).size() +
                                  SizeOf(reduction.element));
  for (std::size_t round = 0; round + 1 < size; ++round) {
    const Bytes out = Share(wire, reduction, data, (wire.rank() + size - round) % size);
    const Bytes into = Share(wire, reduction, data, (wire.rank() + size - round - 1) % size);
    const Bytes in = Bytes(incoming).first(into.size());
    RETURN_IF_ERROR(Pass(wire, style, out, in));
    CombineBytes(reduction, into, in);
  }
  AverageBytes(reduction, Share(wire, reduction, data, (wire.rank() + 1) % size), size);
  return {};
}

// In rank order, whoever's message comes first.
Result<void> CollectAtRoot(Wire& wire, Style style, const Reduction& reduction, Bytes data) {
  const std::size_t size = wire.size();
  const bool overlapped = style == Style::kOverlapped;
  std::vector<std::byte> incoming(data.size() * (overlapped ? size : 1));
  std::vector<std::byte> sum(data.size());
  Transfers transfers(wire);
  for (std::size_t rank = 0; overlapped && rank < size; ++rank) {
    if (rank != wire.rank()) {
      transfers.Recv(Bytes(incoming).subspan(rank * data.size(), data.size()), rank);
    }
  }
  RETURN_IF_ERROR(transfers.Wait());
  for (std::size_t rank = 0; rank < size; ++rank) {
    ConstBytes theirs = data;
    if (rank != wire.rank()) {
      if (!overlapped) {
        RETURN_IF_ERROR(Recv(wire, incoming, rank));
      }
      theirs = Bytes(incoming).subspan(overlapped ? rank * data.size() : 0, data.size());
    }
    if (rank == 0) {
      std::copy(theirs.begin(), theirs.end(), sum.begin());
    } else {
      CombineBytes(reduction, sum, theirs);
    }
  }
  AverageBytes(reduction, sum, size);
  std::copy(sum.begin(), sum.end(), data.begin());
  return {};
}

}  // namespace

Result<void> Send(Wire& wire, ConstBytes bytes, std::size_t to) {
  return bytes.empty() ? Result<void>{} : wire.StartSend(bytes, to)->Wait();
}

Result<void> Recv(Wire& wire, Bytes bytes, std::size_t from) {
  return bytes.empty() ? Result<void>{} : wire.StartRecv(bytes, from)->Wait();
}

Result<void> SendRecv(Wire& wire, ConstBytes out, std::size_t to, Bytes in, std::size_t from) {
  Transfers both(wire);
  both.Recv(in, from);
  both.Send(out, to);
  return both.Wait();
}

Result<void> ReduceNaive(Wire& wire, Style style, const Reduction& reduction, Bytes data,
                         std::size_t root) {
  CHECK(Defined(reduction));
  if (wire.rank() != root) {
    return Send(wire, data, root);
  }
  return CollectAtRoot(wire, style, reduction, data);
}

Result<void> AllReduceNaive(Wire& wire, Style style, const Reduction& reduction, Bytes data) {
  RETURN_IF_ERROR(ReduceNaive(wire, style, reduction, data, 0));
  if (wire.rank() != 0) {
    return Recv(wire, data, 0);
  }
  Transfers transfers(wire);
  for (std::size_t rank = 1; rank < wire.size(); ++rank) {
    transfers.Send(data, rank);
    if (style == Style::kBlocking) {
      RETURN_IF_ERROR(transfers.Wait());
    }
  }
  return transfers.Wait();
}

Result<void> ReduceRing(Wire& wire, Style style, const Reduction& reduction, Bytes data,
                        std::size_t root) {
  CHECK(Defined(reduction));
  RETURN_IF_ERROR(RingReduceScatter(wire, style, reduction, data));
  const std::size_t size = wire.size();
  if (wire.rank() != root) {
    return Send(wire, Share(wire, reduction, data, (wire.rank() + 1) % size), root);
  }
  Transfers transfers(wire);
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t from = (root + step) % size;
    transfers.Recv(Share(wire, reduction, data, (from + 1) % size), from);
    if (style == Style::kBlocking) {
      RETURN_IF_ERROR(transfers.Wait());
    }
  }
  return transfers.Wait();
}

Result<void> AllReduceRing(Wire& wire, Style style, const Reduction& reduction, Bytes data) {
  CHECK(Defined(reduction));
  RETURN_IF_ERROR(RingReduceScatter(wire, style, reduction, data));
  const std::size_t size = wire.size();
  for (std::size_t round = 0; round + 1 < size; ++round) {
    const Bytes out = Share(wire, reduction, data, (wire.rank() + 1 + size - round) % size);
    const Bytes in = Share(wire, reduction, data, (wire.rank() + size - round) % size);
    RETURN_IF_ERROR(Pass(wire, style, out, in));
  }
  return {};
}

Result<void> AllToAll(Wire& wire, ConstBytes in, Bytes out) {
  CHECK(in.size() == out.size() && in.size() % wire.size() == 0);
  const std::size_t share = in.size() / wire.size();
  Transfers transfers(wire);
  for (std::size_t step = 1; step < wire.size(); ++step) {
    const std::size_t from = (wire.rank() + wire.size() - step) % wire.size();
    const std::size_t to = (wire.rank() + step) % wire.size();
    transfers.Recv(out.subspan(from * share, share), from);
    transfers.Send(in.subspan(to * share, share), to);
  }
  const ConstBytes own = in.subspan(wire.rank() * share, share);
  std::copy(own.begin(), own.end(), out.begin() + static_cast<std::ptrdiff_t>(wire.rank() * share));
  return transfers.Wait();
}

Result<void> ReduceScatter(Wire& wire, const Reduction& reduction, ConstBytes in, Bytes out) {
  CHECK(Defined(reduction) && in.size() == out.size() * wire.size());
  std::vector<std::byte> shares(in.size());
  RETURN_IF_ERROR(AllToAll(wire, in, shares));
  for (std::size_t rank = 0; rank < wire.size(); ++rank) {
    const Bytes theirs = Bytes(shares).subspan(rank * out.size(), out.size());
    if (rank == 0) {
      std::copy(theirs.begin(), theirs.end(), out.begin());
    } else {
      CombineBytes(reduction, out, theirs);
    }
  }
  AverageBytes(reduction, out, wire.size());
  return {};
}

}  // namespace ddprun

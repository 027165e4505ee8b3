#include "trainer/bench/check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kShare = 5;  // Elements per rank.

// Of integers for bitwise operations, else of floats; all values are small whole numbers, so that
// any order of adding gives the same.
struct Numbers {
  Element element;
  std::vector<std::byte> bytes;

  Numbers(Element of, std::size_t count) : element(of), bytes(count * sizeof(float)) {}
  void Put(std::size_t i, double value) {
    if (element == Element::kI32) {
      reinterpret_cast<std::int32_t*>(bytes.data())[i] = static_cast<std::int32_t>(value);
    } else {
      reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(value);
    }
  }
  double Get(std::size_t i) const {
    if (element == Element::kI32) {
      return reinterpret_cast<const std::int32_t*>(bytes.data())[i];
    }
    return reinterpret_cast<const float*>(bytes.data())[i];
  }
  std::size_t count() const { return bytes.size() / sizeof(float); }
};

double ExactValue(std::size_t rank, std::size_t i) {
  return static_cast<double>((rank * 3 + i * 2) % 7 + 1);
}

Numbers OwnNumbers(Element element, std::size_t rank, std::size_t count) {
  Numbers numbers(element, count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers.Put(i, ExactValue(rank, i));
  }
  return numbers;
}

// Written apart from Combine, so that the two can be compared.
double Expected(ReduceOp op, std::size_t ranks, std::size_t i) {
  double value = ExactValue(0, i);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const double next = ExactValue(rank, i);
    const auto bits = static_cast<std::int64_t>(value);
    const auto next_bits = static_cast<std::int64_t>(next);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        value += next;
        break;
      case ReduceOp::kProduct:
        value *= next;
        break;
      case ReduceOp::kMin:
        value = std::min(value, next);
        break;
      case ReduceOp::kMax:
        value = std::max(value, next);
        break;
      case ReduceOp::kBand:
        value = static_cast<double>(bits & next_bits);
        break;
      case ReduceOp::kBor:
        value = static_cast<double>(bits | next_bits);
        break;
      case ReduceOp::kBxor:
        value = static_cast<double>(bits ^ next_bits);
        break;
    }
  }
  return op == ReduceOp::kAvg ? value / static_cast<double>(ranks) : value;
}

using ExpectedAt = std::function<double(std::size_t)>;

bool Equal(const Numbers& numbers, const ExpectedAt& expected) {
  for (std::size_t i = 0; i < numbers.count(); ++i) {
    if (std::abs(numbers.Get(i) - expected(i)) > 1e-5 * std::abs(expected(i))) {
      return false;
    }
  }
  return true;
}

// One way of doing a collective: whether the result was right here.
using Attempt = std::function<Result<bool>()>;

class Checker {
 public:
  Checker(ProcessGroup& group, const std::string& name)
      : group_(group), name_(name), collectives_(group), wire_(TorchWire(group)) {}

  Result<void> PointToPoint();
  Result<void> Moving();
  Result<void> Reducing(ReduceOp op);
  Result<void> Barrier();

  std::vector<CheckedRow> rows;

 private:
  static constexpr const char* kBuilt = "built from send/recv";

  Result<void> Row(const std::string& collective, std::string_view operation,
                   const std::string& made_by, const Attempt& attempt) {
    constexpr std::string_view kShared[] = {"broadcast", "all_gather", "reduce", "all_reduce",
                                            "barrier"};
    if (group_.backend() == "nccl" && made_by != name_) {
      return {};  // The collectives built from messages were checked with Gloo's.
    }
    if (group_.backend() == "shm" &&
        (made_by != name_ || std::ranges::find(kShared, collective) == std::end(kShared))) {
      return {};
    }
    const Result<bool> right = attempt();
    if (!right && right.error().kind != ErrorKind::kSystem) {
      return right.error();
    }
    double wrong = right && *right ? 0 : 1;
    RETURN_IF_ERROR(group_.Sum(std::span(&wrong, 1)));
    rows.push_back(CheckedRow{collective, std::string(operation),
                              right ? made_by : "not in " + made_by, wrong == 0});
    return {};
  }

  std::size_t rank() const { return group_.rank(); }
  std::size_t size() const { return group_.size(); }
  std::size_t last() const { return size() - 1; }

  ProcessGroup& group_;
  const std::string name_;
  TorchCollectives collectives_;
  const std::unique_ptr<Wire> wire_;
};

// `wanted` only has to hold where `here`.
Result<bool> Judged(const Result<void>& done, bool here, const Numbers& numbers,
                    const ExpectedAt& wanted) {
  if (!done) {
    return done.error();
  }
  return !here || Equal(numbers, wanted);
}

Result<void> Checker::PointToPoint() {
  const std::size_t next = (rank() + 1) % size();
  const std::size_t previous = (rank() + last()) % size();
  Numbers out = OwnNumbers(Element::kF32, rank(), kShare);
  Numbers in(Element::kF32, kShare);
  const ExpectedAt from_previous = [&](std::size_t i) { return ExactValue(previous, i); };
  RETURN_IF_ERROR(Row("send, recv", "-", name_, [&]() -> Result<bool> {
    // Up the ranks, one after the other.
    Result<void> done;
    if (rank() > 0) {
      done = Recv(*wire_, in.bytes, rank() - 1);
    }
    if (done && rank() < last()) {
      done = Send(*wire_, out.bytes, rank() + 1);
    }
    return Judged(done, rank() > 0, in, from_previous);
  }));
  in = Numbers(Element::kF32, kShare);
  RETURN_IF_ERROR(Row("isend, irecv", "-", name_, [&]() -> Result<bool> {
    // NCCL carries the messages of a rank one after the other, in the order in which they were
    // started: if every rank of the ring received first, none would ever send.
    std::unique_ptr<Transfer> sending;
    if (rank() == 0) {
      sending = wire_->StartSend(out.bytes, next);
    }
    const auto receiving = wire_->StartRecv(in.bytes, previous);
    if (rank() != 0) {
      sending = wire_->StartSend(out.bytes, next);
    }
    const Result<void> received = receiving->Wait();
    const Result<void> sent = sending->Wait();
    return Judged(received ? sent : received, true, in, from_previous);
  }));
  in = Numbers(Element::kF32, kShare);
  return Row("sendrecv", "-", kBuilt, [&]() -> Result<bool> {
    return Judged(SendRecv(*wire_, out.bytes, next, in.bytes, previous), true, in, from_previous);
  });
}

Result<void> Checker::Moving() {
  const Element element = Element::kF32;
  const Numbers own = OwnNumbers(element, rank(), kShare);
  const Numbers all = OwnNumbers(element, rank(), kShare * size());
  const ExpectedAt of_every_rank = [](std::size_t i) { return ExactValue(i / kShare, i % kShare); };
  // Share `rank` of what each rank holds.
  const ExpectedAt exchanged = [&](std::size_t i) {
    return ExactValue(i / kShare, rank() * kShare + i % kShare);
  };
  RETURN_IF_ERROR(Row("broadcast", "-", name_, [&] {
    Numbers data = own;
    const Result<void> done = collectives_.Broadcast(data.bytes, last());
    return Judged(done, true, data, [&](std::size_t i) { return ExactValue(last(), i); });
  }));
  RETURN_IF_ERROR(Row("scatter", "-", name_, [&] {
    Numbers source = all;
    Numbers share(element, kShare);
    const Result<void> done = collectives_.Scatter(source.bytes, share.bytes, last());
    return Judged(done, true, share,
                  [&](std::size_t i) { return ExactValue(last(), rank() * kShare + i); });
  }));
  RETURN_IF_ERROR(Row("gather", "-", name_, [&] {
    Numbers share = own;
    Numbers whole(element, kShare * size());
    const Result<void> done = collectives_.Gather(share.bytes, whole.bytes, last());
    return Judged(done, rank() == last(), whole, of_every_rank);
  }));
  RETURN_IF_ERROR(Row("all_gather", "-", name_, [&] {
    Numbers share = own;
    Numbers whole(element, kShare * size());
    const Result<void> done = collectives_.AllGather(share.bytes, whole.bytes);
    return Judged(done, true, whole, of_every_rank);
  }));
  RETURN_IF_ERROR(Row("all_to_all", "-", name_, [&] {
    Numbers source = all;
    Numbers whole(element, kShare * size());
    const Result<void> done = collectives_.AllToAll(source.bytes, whole.bytes);
    return Judged(done, true, whole, exchanged);
  }));
  return Row("all_to_all", "-", kBuilt, [&] {
    Numbers whole(element, kShare * size());
    const Result<void> done = AllToAll(*wire_, all.bytes, whole.bytes);
    return Judged(done, true, whole, exchanged);
  });
}

Result<void> Checker::Reducing(ReduceOp op) {
  const Element element = Defined({op, Element::kF32}) ? Element::kF32 : Element::kI32;
  const Reduction reduction{op, element};
  const std::string_view operation = NameOf(op);
  const ExpectedAt reduced = [&](std::size_t i) { return Expected(op, size(), i); };
  const ExpectedAt own_share = [&](std::size_t i) { return reduced(rank() * kShare + i); };
  using InPlace = std::function<Result<void>(Numbers&)>;
  const auto in_place = [&](const char* collective, const std::string& made_by, bool everywhere,
                            const InPlace& run) {
    return Row(collective, operation, made_by, [&] {
      Numbers data = OwnNumbers(element, rank(), kShare);
      const Result<void> done = run(data);
      return Judged(done, everywhere || rank() == last(), data, reduced);
    });
  };
  RETURN_IF_ERROR(in_place("reduce", name_, false, [&](Numbers& data) {
    return collectives_.Reduce(reduction, data.bytes, last());
  }));
  RETURN_IF_ERROR(in_place("reduce", kBuilt, false, [&](Numbers& data) {
    return ReduceNaive(*wire_, Style::kBlocking, reduction, data.bytes, last());
  }));
  RETURN_IF_ERROR(in_place("all_reduce", name_, true, [&](Numbers& data) {
    return collectives_.AllReduce(reduction, data.bytes);
  }));
  RETURN_IF_ERROR(in_place("all_reduce", kBuilt, true, [&](Numbers& data) {
    return AllReduceRing(*wire_, Style::kBlocking, reduction, data.bytes);
  }));
  const auto scattered = [&](const std::string& made_by, auto run) {
    return Row("reduce_scatter", operation, made_by, [&] {
      Numbers source = OwnNumbers(element, rank(), kShare * size());
      Numbers share(element, kShare);
      const Result<void> done = run(source, share);
      return Judged(done, true, share, own_share);
    });
  };
  RETURN_IF_ERROR(scattered(name_, [&](Numbers& source, Numbers& share) {
    return collectives_.ReduceScatter(reduction, source.bytes, share.bytes);
  }));
  return scattered(kBuilt, [&](Numbers& source, Numbers& share) {
    return ReduceScatter(*wire_, reduction, source.bytes, share.bytes);
  });
}

// Right when no rank leaves before the last one has come: each says in the store that it comes.
Result<void> Checker::Barrier() {
  return Row("barrier", "-", name_, [&]() -> Result<bool> {
    RETURN_IF_ERROR(collectives_.Count("at-barrier", 1));
    RETURN_IF_ERROR(collectives_.Barrier());
    ASSIGN_OR_RETURN(const std::int64_t came, collectives_.Count("at-barrier", 0));
    return came == static_cast<std::int64_t>(size());
  });
}

}  // namespace

Result<std::vector<CheckedRow>> CheckCollectives(ProcessGroup& group, const std::string& library) {
  Checker checker(group, library);
  RETURN_IF_ERROR(checker.PointToPoint());
  RETURN_IF_ERROR(checker.Moving());
  for (const ReduceOp op : kReduceOps) {
    RETURN_IF_ERROR(checker.Reducing(op));
  }
  RETURN_IF_ERROR(checker.Barrier());
  return std::move(checker.rows);
}

}  // namespace ddprun

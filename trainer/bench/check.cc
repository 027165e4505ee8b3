#include "trainer/bench/check.h"

#include <ATen/Functions.h>

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "trainer/group/reference_collectives.h"
#include "trainer/group/torch_group.h"

namespace ddprun {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kShare = 5;  // Elements per rank.
constexpr std::pair<ReduceOperation, const char*> kOperations[] = {
    {ReduceOperation::SUM, "SUM"},   {ReduceOperation::PRODUCT, "PRODUCT"},
    {ReduceOperation::MIN, "MIN"},   {ReduceOperation::MAX, "MAX"},
    {ReduceOperation::BAND, "BAND"}, {ReduceOperation::BOR, "BOR"},
    {ReduceOperation::BXOR, "BXOR"}, {ReduceOperation::AVG, "AVG"}};

bool IsBitwise(ReduceOperation operation) {
  return operation == ReduceOperation::BAND || operation == ReduceOperation::BOR ||
         operation == ReduceOperation::BXOR;
}

// The numbers that a rank gives: small and whole, so that any order of adding gives the same.
at::Tensor ValuesOf(std::int64_t rank, std::int64_t count) {
  return at::arange(count, at::kLong).mul(2).add(rank * 3).remainder(7).add(1);
}

// Written apart from the collectives' own arithmetic, so that the two can be compared.
at::Tensor Expected(ReduceOperation operation, const Tensors& of_ranks) {
  const at::Tensor all = at::stack(of_ranks);
  switch (operation) {
    case ReduceOperation::SUM:
      return all.sum(0);
    case ReduceOperation::AVG:
      return all.to(at::kDouble).mean(0);
    case ReduceOperation::PRODUCT:
      return all.prod(0);
    case ReduceOperation::MIN:
      return all.amin(0);
    case ReduceOperation::MAX:
      return all.amax(0);
    default:
      break;
  }
  at::Tensor bits = all[0];
  for (std::int64_t rank = 1; rank < all.size(0); ++rank) {
    bits = operation == ReduceOperation::BAND  ? at::bitwise_and(bits, all[rank])
           : operation == ReduceOperation::BOR ? at::bitwise_or(bits, all[rank])
                                               : at::bitwise_xor(bits, all[rank]);
  }
  return bits;
}

bool Equal(const at::Tensor& here, const at::Tensor& expected) {
  return at::allclose(here.to(at::kCPU, at::kDouble), expected.to(at::kDouble), 1e-5, 0);
}

class Checker {
 public:
  Checker(ProcessGroup& group, const std::string& name)
      : group_(group),
        torch_(*group.torch()->group),
        device_(group.torch()->device),
        name_(name),
        rank_(group.rank()),
        size_(group.size()) {}

  Result<void> PointToPoint();
  Result<void> Moving();
  Result<void> Reducing(ReduceOperation operation, const char* name);
  Result<void> Barrier();

  std::vector<CheckedRow> rows;

 private:
  static constexpr const char* kBuilt = "built from send/recv";

  // One way of doing a collective: whether the result was right here. The group throws where it
  // lacks the collective, and where it lost a peer.
  Result<void> Row(const std::string& collective, const char* operation, const std::string& made_by,
                   const std::function<bool()>& attempt) {
    if (group_.backend() != "gloo" && made_by != name_) {
      return {};  // The collectives built from messages were checked with Gloo's.
    }
    const bool sum = collective == "all_reduce" && operation == std::string_view("SUM");
    const bool shared = sum || collective == "broadcast" || collective == "barrier";
    if ((group_.backend() == "nodes" && !sum) || (group_.backend() == "shm" && !shared)) {
      return {};  // By Gloo, or not at all.
    }
    std::optional<bool> right;
    try {
      right = attempt();
    } catch (const std::exception&) {
      const Error error = CollectiveError(group_.rank(), "take part in " + collective);
      if (error.kind != ErrorKind::kSystem) {
        return error;
      }
    }
    double wrong = right.value_or(false) ? 0 : 1;
    RETURN_IF_ERROR(group_.Sum(std::span(&wrong, 1)));
    rows.push_back(
        CheckedRow{collective, operation, right ? made_by : "not in " + made_by, wrong == 0});
    return {};
  }

  at::Tensor Own(std::int64_t count, at::ScalarType type = at::kFloat) const {
    return ValuesOf(rank_, count).to(device_, type);
  }
  at::Tensor Zeros(std::int64_t count, at::ScalarType type = at::kFloat) const {
    return at::zeros({count}, at::TensorOptions(device_).dtype(type));
  }
  std::int64_t last() const { return size_ - 1; }

  ProcessGroup& group_;
  c10d::ProcessGroup& torch_;
  const at::Device device_;
  const std::string name_;
  const std::int64_t rank_;
  const std::int64_t size_;
};

Result<void> Checker::PointToPoint() {
  const std::int64_t next = (rank_ + 1) % size_;
  const std::int64_t previous = (rank_ + last()) % size_;
  const at::Tensor out = Own(kShare);
  const at::Tensor in = Zeros(kShare);
  const auto from_previous = [&] { return Equal(in, ValuesOf(previous, kShare)); };
  RETURN_IF_ERROR(Row("send, recv", "-", name_, [&] {
    // Up the ranks, one after the other.
    if (rank_ > 0) {
      Recv(torch_, in, rank_ - 1);
    }
    if (rank_ < last()) {
      Send(torch_, out, rank_ + 1);
    }
    return rank_ == 0 || from_previous();
  }));
  in.zero_();
  RETURN_IF_ERROR(Row("isend, irecv", "-", name_, [&] {
    // NCCL carries the messages of a rank one after the other, in the order in which they were
    // started: if every rank of the ring received first, none would ever send.
    Tensors sent = {out};
    Tensors received = {in};
    c10::intrusive_ptr<c10d::Work> sending;
    if (rank_ == 0) {
      sending = torch_.send(sent, static_cast<int>(next), 0);
    }
    const auto receiving = torch_.recv(received, static_cast<int>(previous), 0);
    if (rank_ != 0) {
      sending = torch_.send(sent, static_cast<int>(next), 0);
    }
    receiving->wait();
    sending->wait();
    return from_previous();
  }));
  in.zero_();
  return Row("sendrecv", "-", kBuilt, [&] {
    SendRecv(torch_, out, next, in, previous);
    return from_previous();
  });
}

Result<void> Checker::Moving() {
  const at::Tensor own = Own(kShare);
  const at::Tensor all = Own(kShare * size_);
  const at::Tensor of_root = ValuesOf(last(), kShare * size_);
  Tensors own_of_ranks;
  Tensors shares_of_ranks;  // Share `rank` of what each rank holds.
  for (std::int64_t rank = 0; rank < size_; ++rank) {
    own_of_ranks.push_back(ValuesOf(rank, kShare));
    shares_of_ranks.push_back(ValuesOf(rank, kShare * size_).chunk(size_)[rank_]);
  }
  const at::Tensor of_every_rank = at::cat(own_of_ranks);
  const at::Tensor exchanged = at::cat(shares_of_ranks);
  RETURN_IF_ERROR(Row("broadcast", "-", name_, [&] {
    Tensors data = {own.clone()};
    c10d::BroadcastOptions options;
    options.rootRank = last();
    torch_.broadcast(data, options)->wait();
    return Equal(data[0], own_of_ranks.back());
  }));
  RETURN_IF_ERROR(Row("scatter", "-", name_, [&] {
    Tensors share = {Zeros(kShare)};
    std::vector<Tensors> source;
    if (rank_ == last()) {
      source.push_back(all.chunk(size_));
    }
    c10d::ScatterOptions options;
    options.rootRank = last();
    torch_.scatter(share, source, options)->wait();
    return Equal(share[0], of_root.chunk(size_)[rank_]);
  }));
  RETURN_IF_ERROR(Row("gather", "-", name_, [&] {
    Tensors share = {own};
    const at::Tensor whole = Zeros(kShare * size_);
    std::vector<Tensors> out;
    if (rank_ == last()) {
      out.push_back(whole.chunk(size_));
    }
    c10d::GatherOptions options;
    options.rootRank = last();
    torch_.gather(out, share, options)->wait();
    return rank_ != last() || Equal(whole, of_every_rank);
  }));
  RETURN_IF_ERROR(Row("all_gather", "-", name_, [&] {
    Tensors share = {own};
    const at::Tensor whole = Zeros(kShare * size_);
    std::vector<Tensors> out = {whole.chunk(size_)};
    torch_.allgather(out, share)->wait();
    return Equal(whole, of_every_rank);
  }));
  RETURN_IF_ERROR(Row("all_to_all", "-", name_, [&] {
    const at::Tensor whole = Zeros(kShare * size_);
    Tensors from = all.chunk(size_);
    Tensors to = whole.chunk(size_);
    torch_.alltoall(to, from)->wait();
    return Equal(whole, exchanged);
  }));
  return Row("all_to_all", "-", kBuilt, [&] {
    const at::Tensor whole = Zeros(kShare * size_);
    AllToAll(torch_, all, whole);
    return Equal(whole, exchanged);
  });
}

Result<void> Checker::Reducing(ReduceOperation operation, const char* name) {
  const at::ScalarType type = IsBitwise(operation) ? at::kInt : at::kFloat;
  Tensors of_ranks;
  for (std::int64_t rank = 0; rank < size_; ++rank) {
    of_ranks.push_back(ValuesOf(rank, kShare * size_));
  }
  const at::Tensor reduced = Expected(operation, of_ranks);
  using InPlace = std::function<void(const at::Tensor& data)>;
  const auto in_place = [&](const char* collective, const std::string& made_by, bool everywhere,
                            const InPlace& run) {
    return Row(collective, name, made_by, [&] {
      const at::Tensor data = Own(kShare, type);
      run(data);
      return (!everywhere && rank_ != last()) || Equal(data, reduced.narrow(0, 0, kShare));
    });
  };
  RETURN_IF_ERROR(in_place("reduce", name_, false, [&](const at::Tensor& data) {
    LibraryReduce(torch_, operation, data, last());
  }));
  RETURN_IF_ERROR(in_place("reduce", kBuilt, false, [&](const at::Tensor& data) {
    ReduceNaive(torch_, Style::kBlocking, operation, data, last());
  }));
  RETURN_IF_ERROR(in_place("all_reduce", name_, true, [&](const at::Tensor& data) {
    LibraryAllReduce(torch_, operation, data);
  }));
  RETURN_IF_ERROR(in_place("all_reduce", kBuilt, true, [&](const at::Tensor& data) {
    AllReduceRing(torch_, Style::kBlocking, operation, data);
  }));
  const at::Tensor source = Own(kShare * size_, type);
  const at::Tensor own_share = reduced.chunk(size_)[rank_];
  RETURN_IF_ERROR(Row("reduce_scatter", name, name_, [&] {
    Tensors share = {Zeros(kShare, type)};
    std::vector<Tensors> in = {source.chunk(size_)};
    c10d::ReduceScatterOptions options;
    options.reduceOp = operation;
    torch_.reduce_scatter(share, in, options)->wait();
    return Equal(share[0], own_share);
  }));
  return Row("reduce_scatter", name, kBuilt, [&] {
    const at::Tensor share = Zeros(kShare, type);
    ReduceScatter(torch_, operation, source, share);
    return Equal(share, own_share);
  });
}

// Right when no rank leaves before the last one has come: each says in the store that it comes.
Result<void> Checker::Barrier() {
  return Row("barrier", "-", name_, [&] {
    torch_.getStore()->add("at-barrier", 1);
    c10d::BarrierOptions options;
    options.device = device_;  // Else the CPU's backend would meet.
    torch_.barrier(options)->wait();
    return torch_.getStore()->add("at-barrier", 0) == size_;
  });
}

}  // namespace

Result<std::vector<CheckedRow>> CheckCollectives(ProcessGroup& group, const std::string& library) {
  Checker checker(group, library);
  RETURN_IF_ERROR(checker.PointToPoint());
  RETURN_IF_ERROR(checker.Moving());
  for (const auto& [operation, name] : kOperations) {
    RETURN_IF_ERROR(checker.Reducing(operation, name));
  }
  RETURN_IF_ERROR(checker.Barrier());
  return std::move(checker.rows);
}

}  // namespace ddprun

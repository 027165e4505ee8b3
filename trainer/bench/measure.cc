#include "trainer/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;
using Floats = std::vector<float>;

constexpr std::size_t kWindow = 16;
constexpr Reduction kSum{ReduceOp::kSum, Element::kF32};

std::span<std::byte> BytesOf(Floats& floats) {
  return std::as_writable_bytes(std::span(floats));
}

// Small whole numbers: any order of adding gives the same sum.
float SentValue(std::size_t rank, std::size_t i) {
  return static_cast<float>(rank + 1 + i % 7);
}

void Fill(Floats& floats, std::size_t rank) {
  for (std::size_t i = 0; i < floats.size(); ++i) {
    floats[i] = SentValue(rank, i);
  }
}

bool HoldsSum(const Floats& floats, std::size_t ranks) {
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const std::size_t sum = ranks * (ranks + 1) / 2 + ranks * (i % 7);
    if (floats[i] != static_cast<float>(sum)) {
      return false;
    }
  }
  return true;
}

bool HoldsValuesOf(const Floats& floats, std::size_t rank) {
  for (std::size_t i = 0; i < floats.size(); ++i) {
    if (floats[i] != SentValue(rank, i)) {
      return false;
    }
  }
  return true;
}

// `work` is one round between two looks at the clock.
struct Round {
  std::function<void()> prepare;
  std::function<Result<void>()> work;
  std::function<bool()> right;
};

// One round more than is counted: the first pays for connections and pages.
Result<Measured> TimeRounds(ProcessGroup& group, Measured measured, std::int64_t rounds,
                            double divisor, const Round& round) {
  TorchCollectives collectives(group);
  std::vector<double> seconds;
  double wrong = 0;
  for (std::int64_t i = 0; i <= rounds; ++i) {
    round.prepare();
    RETURN_IF_ERROR(collectives.Barrier());
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(round.work());
    const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
    seconds.push_back(collectives.Seconds().value_or(passed));
    wrong += round.right() ? 0 : 1;
  }
  RETURN_IF_ERROR(collectives.AllReduce({ReduceOp::kMax, Element::kF64},
                                        std::as_writable_bytes(std::span(seconds))));
  RETURN_IF_ERROR(group.Sum(std::span(&wrong, 1)));
  for (std::size_t i = 1; i < seconds.size(); ++i) {
    measured.microseconds.push_back(seconds[i] * 1e6 / divisor);
  }
  std::sort(measured.microseconds.begin(), measured.microseconds.end());
  measured.right = wrong == 0;
  return measured;
}

class Sends {
 public:
  Sends(ProcessGroup& group, std::size_t floats)
      : rank_(group.rank()),
        last_(group.size() - 1),
        wire_(TorchWire(group)),
        out_(floats),
        in_(floats) {}

  void Prepare() {
    Fill(out_, rank_);
    std::fill(in_.begin(), in_.end(), 0.0F);
  }
  bool Right() const { return !TakesPart() || HoldsValuesOf(in_, Peer()); }

  Result<void> PingPong() {
    if (rank_ == 0) {
      RETURN_IF_ERROR(Send(*wire_, BytesOf(out_), last_));
      return Recv(*wire_, BytesOf(in_), last_);
    }
    if (rank_ == last_) {
      RETURN_IF_ERROR(Recv(*wire_, BytesOf(in_), 0));
      return Send(*wire_, BytesOf(out_), 0);
    }
    return {};
  }

  // The answer at the end tells rank 0 that all have arrived.
  Result<void> Stream() {
    if (!TakesPart()) {
      return {};
    }
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (std::size_t i = 0; i < kWindow; ++i) {
      transfers.push_back(rank_ == 0 ? wire_->StartSend(BytesOf(out_), last_)
                                     : wire_->StartRecv(BytesOf(in_), 0));
    }
    for (const auto& transfer : transfers) {
      RETURN_IF_ERROR(transfer->Wait());
    }
    return rank_ == 0 ? Recv(*wire_, BytesOf(in_).first(sizeof(float)), last_)
                      : Send(*wire_, BytesOf(out_).first(sizeof(float)), 0);
  }
  bool StreamRight() const { return rank_ != last_ || HoldsValuesOf(in_, 0); }

 private:
  bool TakesPart() const { return rank_ == 0 || rank_ == last_; }
  std::size_t Peer() const { return rank_ == 0 ? last_ : 0; }

  const std::size_t rank_;
  const std::size_t last_;
  const std::unique_ptr<Wire> wire_;
  Floats out_;
  Floats in_;
};

struct Way {
  const char* operation;
  std::string made_by;
  bool at_root;  // Only rank 0 has the result.
  std::function<Result<void>(std::span<std::byte>)> run;
};

std::vector<Way> TorchWays(TorchCollectives& theirs, const std::string& name) {
  using Bytes = std::span<std::byte>;
  return {{"reduce", name, true, [&](Bytes data) { return theirs.Reduce(kSum, data, 0); }},
          {"all-reduce", name, false, [&](Bytes data) { return theirs.AllReduce(kSum, data); }}};
}

void AddBuiltWays(Wire& wire, std::vector<Way>& ways) {
  using Bytes = std::span<std::byte>;
  for (const Style style : {Style::kBlocking, Style::kOverlapped}) {
    const std::string calls = style == Style::kBlocking ? "send/recv" : "isend/irecv";
    ways.push_back({"reduce", calls + ", naive", true, [&wire, style](Bytes data) {
                      return ReduceNaive(wire, style, kSum, data, 0);
                    }});
    ways.push_back({"reduce", calls + ", ring", true,
                    [&wire, style](Bytes data) { return ReduceRing(wire, style, kSum, data, 0); }});
    ways.push_back({"all-reduce", calls + ", naive", false, [&wire, style](Bytes data) {
                      return AllReduceNaive(wire, style, kSum, data);
                    }});
    ways.push_back({"all-reduce", calls + ", ring", false,
                    [&wire, style](Bytes data) { return AllReduceRing(wire, style, kSum, data); }});
  }
  std::stable_sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) {
    return std::string_view(a.operation) > b.operation;  // "reduce" first.
  });
}

Result<std::vector<Measured>> MeasureWays(ProcessGroup& group, const std::vector<Way>& ways,
                                          std::int64_t bytes, std::int64_t rounds) {
  Floats data(static_cast<std::size_t>(bytes) / sizeof(float));
  std::vector<Measured> rows;
  for (const Way& way : ways) {
    const Round round{
        [&] { Fill(data, group.rank()); }, [&] { return way.run(BytesOf(data)); },
        [&] { return (way.at_root && group.rank() != 0) || HoldsSum(data, group.size()); }};
    ASSIGN_OR_RETURN(Measured row, TimeRounds(group, {way.operation, way.made_by, bytes, {}, false},
                                              rounds, 1, round));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Result<std::vector<Measured>> MeasureSends(ProcessGroup& group, const std::string& library,
                                           std::int64_t bytes, std::int64_t rounds) {
  Sends sends(group, static_cast<std::size_t>(bytes) / sizeof(float));
  const auto prepare = [&] { sends.Prepare(); };
  std::vector<Measured> rows;
  ASSIGN_OR_RETURN(Measured one, TimeRounds(group, {"send", library, bytes, {}, false}, rounds, 2,
                                            {prepare, [&] { return sends.PingPong(); },
                                             [&] { return sends.Right(); }}));
  rows.push_back(std::move(one));
  ASSIGN_OR_RETURN(
      Measured many,
      TimeRounds(group, {"send, 16 at once", library, bytes, {}, false}, rounds, kWindow,
                 {prepare, [&] { return sends.Stream(); }, [&] { return sends.StreamRight(); }}));
  rows.push_back(std::move(many));
  return rows;
}

Result<std::vector<Measured>> MeasureReductions(ProcessGroup& group, const std::string& library,
                                                std::int64_t bytes, std::int64_t rounds) {
  TorchCollectives theirs(group);
  const std::unique_ptr<Wire> wire = TorchWire(group);
  std::vector<Way> ways = TorchWays(theirs, library);
  AddBuiltWays(*wire, ways);
  return MeasureWays(group, ways, bytes, rounds);
}

Result<std::vector<Measured>> MeasureShared(ProcessGroup& group, const std::string& library,
                                            std::int64_t bytes, std::int64_t rounds) {
  TorchCollectives theirs(group);
  return MeasureWays(group, TorchWays(theirs, library), bytes, rounds);
}

}  // namespace ddprun

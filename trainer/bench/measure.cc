#include "trainer/bench/measure.h"

#include <ATen/Functions.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "trainer/group/reference_collectives.h"
#include "trainer/group/torch_group.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWindow = 16;

// Small whole numbers: any order of adding gives the same sum.
at::Tensor SentBy(std::int64_t rank, std::int64_t count) {
  return at::arange(count, at::kFloat).remainder(7).add(rank + 1);
}

// `work` is one round between two looks at the clock.
struct Round {
  std::function<void()> prepare;
  std::function<void()> work;
  std::function<bool()> right;
};

class Timer {
 public:
  explicit Timer(ProcessGroup& group)
      : group_(group), torch_(*group.torch()->group), device_(group.torch()->device) {}

  // One round more than is counted: the first pays for connections and pages.
  Result<Measured> Time(Measured measured, std::int64_t rounds, double divisor,
                        const Round& round) const {
    std::vector<double> seconds;
    double wrong = 0;
    try {
      for (std::int64_t i = 0; i <= rounds; ++i) {
        round.prepare();
        Meet();
        AwaitDevice();
        const Clock::time_point begin = Clock::now();
        round.work();
        AwaitDevice();
        seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
        wrong += round.right() ? 0 : 1;
      }
    } catch (const std::exception&) {
      return CollectiveError(group_.rank(), "measure " + measured.operation);
    }
    RETURN_IF_ERROR(group_.Sum(std::span(&wrong, 1)));
    std::vector<double> of_ranks(seconds.size() * group_.size());
    std::ranges::copy(seconds, of_ranks.begin() + group_.rank() * seconds.size());
    RETURN_IF_ERROR(group_.Sum(of_ranks));
    for (std::size_t i = 1; i < seconds.size(); ++i) {
      double longest = 0;
      for (std::size_t at = i; at < of_ranks.size(); at += seconds.size()) {
        longest = std::max(longest, of_ranks[at]);
      }
      measured.microseconds.push_back(longest * 1e6 / divisor);
    }
    std::sort(measured.microseconds.begin(), measured.microseconds.end());
    measured.right = wrong == 0;
    return measured;
  }

 private:
  void Meet() const {
    c10d::BarrierOptions options;
    options.device = device_;  // Else the CPU's backend would meet.
    torch_.barrier(options)->wait();
  }
  // Until all that a GPU was told is done.
  void AwaitDevice() const {
    if (!device_.is_cpu()) {
      c10::impl::VirtualGuardImpl(device_.type()).getStream(device_).synchronize();
    }
  }

  ProcessGroup& group_;
  c10d::ProcessGroup& torch_;
  const at::Device device_;
};

class Sends {
 public:
  Sends(ProcessGroup& group, std::int64_t floats)
      : torch_(*group.torch()->group),
        rank_(group.rank()),
        last_(group.size() - 1),
        out_(SentBy(rank_, floats)),
        in_(at::empty_like(out_)) {}

  void Prepare() { in_.zero_(); }
  bool Right() const { return !TakesPart() || in_.equal(SentBy(Peer(), in_.numel())); }

  void PingPong() {
    if (rank_ == 0) {
      Send(torch_, out_, last_);
      Recv(torch_, in_, last_);
    } else if (rank_ == last_) {
      Recv(torch_, in_, 0);
      Send(torch_, out_, 0);
    }
  }

  // The answer at the end tells rank 0 that all have arrived.
  void Stream() {
    if (!TakesPart()) {
      return;
    }
    std::vector<at::Tensor> tensors = {rank_ == 0 ? out_ : in_};
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < kWindow; ++i) {
      works.push_back(rank_ == 0 ? torch_.send(tensors, static_cast<int>(last_), 0)
                                 : torch_.recv(tensors, 0, 0));
    }
    for (const auto& work : works) {
      work->wait();
    }
    if (rank_ == 0) {
      Recv(torch_, in_.narrow(0, 0, 1), last_);
    } else {
      Send(torch_, out_.narrow(0, 0, 1), 0);
    }
  }
  bool StreamRight() const { return rank_ != last_ || Right(); }

 private:
  bool TakesPart() const { return rank_ == 0 || rank_ == last_; }
  std::int64_t Peer() const { return rank_ == 0 ? last_ : 0; }

  c10d::ProcessGroup& torch_;
  const std::int64_t rank_;
  const std::int64_t last_;
  const at::Tensor out_;
  const at::Tensor in_;
};

struct Way {
  const char* operation;
  std::string made_by;
  bool at_root;  // Only rank 0 has the result.
  std::function<void(const at::Tensor&)> run;
};

std::vector<Way> WaysOf(ProcessGroup& group, const std::string& library) {
  constexpr ReduceOperation kSum = ReduceOperation::SUM;
  c10d::ProcessGroup& torch = *group.torch()->group;
  std::vector<Way> ways = {
      {"reduce", library, true,
       [&torch](const at::Tensor& data) { LibraryReduce(torch, kSum, data, 0); }},
      {"all-reduce", library, false,
       [&torch](const at::Tensor& data) { LibraryAllReduce(torch, kSum, data); }}};
  if (group.backend() != "gloo") {    // Ours are measured with Gloo's messages alone.
    if (group.backend() != "nccl") {  // Shared memory has no reduce.
      ways.erase(ways.begin());
    }
    return ways;
  }
  for (const Style style : {Style::kBlocking, Style::kOverlapped}) {
    const std::string calls = style == Style::kBlocking ? "send/recv" : "isend/irecv";
    ways.push_back({"reduce", calls + ", naive", true, [&torch, style](const at::Tensor& data) {
                      ReduceNaive(torch, style, kSum, data, 0);
                    }});
    ways.push_back({"reduce", calls + ", ring", true, [&torch, style](const at::Tensor& data) {
                      ReduceRing(torch, style, kSum, data, 0);
                    }});
    ways.push_back(
        {"all-reduce", calls + ", naive", false,
         [&torch, style](const at::Tensor& data) { AllReduceNaive(torch, style, kSum, data); }});
    ways.push_back({"all-reduce", calls + ", ring", false, [&torch, style](const at::Tensor& data) {
                      AllReduceRing(torch, style, kSum, data);
                    }});
  }
  std::stable_sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) {
    return std::string_view(a.operation) > b.operation;  // "reduce" first.
  });
  return ways;
}

}  // namespace

Result<std::vector<Measured>> MeasureReductions(ProcessGroup& group, const std::string& library,
                                                std::int64_t bytes, std::int64_t rounds) {
  const auto count = bytes / static_cast<std::int64_t>(sizeof(float));
  const at::Device device = group.torch()->device;
  const at::Tensor own = SentBy(group.rank(), count).to(device);
  at::Tensor sum = at::zeros({count});
  for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
    sum.add_(SentBy(rank, count));
  }
  sum = sum.to(device);
  const at::Tensor data = own.clone();
  std::vector<Measured> rows;
  for (const Way& way : WaysOf(group, library)) {
    const Round round{[&] { data.copy_(own); }, [&] { way.run(data); },
                      [&] { return (way.at_root && group.rank() != 0) || data.equal(sum); }};
    ASSIGN_OR_RETURN(Measured row, Timer(group).Time({way.operation, way.made_by, bytes, {}, false},
                                                     rounds, 1, round));
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<std::vector<Measured>> MeasureSends(ProcessGroup& group, const std::string& library,
                                           std::int64_t bytes, std::int64_t rounds) {
  Sends sends(group, bytes / static_cast<std::int64_t>(sizeof(float)));
  const Timer timer(group);
  const auto prepare = [&] { sends.Prepare(); };
  ASSIGN_OR_RETURN(Measured one,
                   timer.Time({"send", library, bytes, {}, false}, rounds, 2,
                              {prepare, [&] { sends.PingPong(); }, [&] { return sends.Right(); }}));
  ASSIGN_OR_RETURN(
      Measured many,
      timer.Time({"send, 16 at once", library, bytes, {}, false}, rounds, kWindow,
                 {prepare, [&] { sends.Stream(); }, [&] { return sends.StreamRight(); }}));
  return std::vector<Measured>{std::move(one), std::move(many)};
}

}  // namespace ddprun

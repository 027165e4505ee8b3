// Collectives of ranks that share memory: each copies its data into a slot that all can read.
//
// Results are formed in rank order, element by element, so that they are the same bits on every
// rank and in every run, whatever the timing and however the data is cut up. No thread of its own
// and no system call if no rank has to wait: a rank that waits looks at its peers for a moment if
// there are cores for all of them (rank_cores.h; each tells which it may run on), then sleeps on a
// futex.
//
// A wait ends with kUnavailable within milliseconds when a peer's process ends (each rank holds a
// lock on its byte of the memory's file, which ends with it), after the timeout when a peer is
// silent, at once after Abort. After an error every call says the same one; the world can be
// destroyed. All ranks call the same functions in the same order with the same sizes; if they do
// not, that is said. One thread at a time, except Abort.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/result.h"
#include "trainer/group/combine.h"

namespace ddprun {

struct RankArea;

// Shared pages of so many ranks, unmapped at the end. Zero before the first use.
using SharedPages = std::shared_ptr<std::byte>;
std::size_t SharedBytes(std::size_t ranks);
// `memory`: opened by `rank` alone, which is seen to live until it is closed.
Result<SharedPages> MapShared(int memory, std::size_t rank, std::size_t ranks);

class SharedWorld {
 public:
  // Of MapShared, once all ranks have called it.
  SharedWorld(SharedPages pages, UniqueFd memory, std::size_t rank, std::size_t size,
              std::chrono::milliseconds timeout);

  // Of several nodes' sums: rank 0 calls it with each piece of its node's sum, and all ranks get
  // the piece as it is then.
  using Across = std::function<Result<void>(Element element, std::span<std::byte> sum)>;

  // Each element becomes its sum over the ranks.
  Result<void> AllReduce(Element element, std::span<std::byte> data, const Across& across = {});

  // Several tensors at once, such as gradients, without a copy of them beside the shared one:
  // each number becomes the sum over the ranks of `factor` times it. Of kMostSummed at most.
  using Tensors = std::span<const std::span<float>>;
  static constexpr std::size_t kMostSummed = std::size_t{1} << 18;  // A slot: 1 MiB.
  Result<void> Sum(Tensors tensors, float factor, const Across& across = {});
  Result<void> Broadcast(std::span<std::byte> data, std::size_t root);
  Result<void> Barrier();

  // For messages: the ranks' numbers in a world of several nodes. Before the first call.
  void NumberRanks(std::vector<std::size_t> numbers) { numbers_ = std::move(numbers); }

  // Ends a wait of this rank, and all to come. From any thread or signal handler.
  void Abort() { aborted_.store(true, std::memory_order_relaxed); }

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }

 private:
  // The next operation of a rank; must be equal on all of them.
  struct Doing {
    std::uint32_t what = 0;
    std::uint32_t detail = 0;
    std::uint64_t bytes = 0;
    bool operator==(const Doing&) const = default;
  };
  friend struct RankArea;

  RankArea& Area(std::size_t rank) const;
  std::byte* Slot(std::size_t rank) const;
  void Reduce(Element element, std::byte* into, std::size_t begin, std::size_t end) const;
  Result<void> ReduceSlots(Element element, Doing doing, const Across& across,
                           std::span<const std::span<std::byte>> into);
  Result<void> Begin();
  Result<void> Noted(Result<void> done);
  Result<void> Meet(const Doing& doing);
  Result<void> WaitFor(std::size_t peer);
  bool MaySpin();
  bool Spin(const std::atomic<std::uint32_t>& arrived);
  Result<void> Sleep(std::size_t peer);
  Result<void> CheckPeers() const;
  std::string Name(std::size_t rank) const;

  const SharedPages pages_;
  const UniqueFd memory_;
  const std::size_t rank_;
  const std::size_t size_;
  const std::chrono::milliseconds timeout_;
  std::vector<std::size_t> numbers_;
  std::optional<bool> spins_;   // There is a core for every rank. None: not all ranks have said so
                                // yet.
  std::uint32_t meetings_ = 0;  // How often this rank has met the others.
  std::uint32_t operations_ = 0;
  std::optional<Error> failed_;  // Of an operation; every later one returns it too.
  std::uint32_t waits_ = 0;      // How many waits were not over at once.
  std::chrono::nanoseconds spin_;
  std::atomic<bool> aborted_{false};
};

}  // namespace ddprun

#include "trainer/group/shared_world.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "common/check.h"
#include "trainer/group/rank_cores.h"

namespace ddprun {

// One per rank, on cache lines of its own.
struct alignas(128) RankArea {
  std::atomic<std::uint32_t> arrived;   // Meetings that this rank has come to. Peers sleep on it.
  std::atomic<std::uint32_t> sleepers;  // Peers that sleep on `arrived`.
  SharedWorld::Doing doing[2];  // Its last two operations: a slow peer may still read the first.
  std::atomic<std::uint32_t> told_cores;  // 1 once this rank has written `cores`.
  cpu_set_t cores;                        // The cores on which this rank may run.
};

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPage = 4096;
// Large tensors pass in pieces of this size. Two slots per rank: while one is still read by a slow
// peer, the next operation fills the other; no rank can be two operations ahead.
constexpr std::size_t kSlotBytes = std::size_t{1} << 20;
// Up to this size every rank reduces everything itself: one meeting instead of two.
constexpr std::size_t kDirectBytes = std::size_t{16} << 10;
// How long a rank spins before it sleeps. Spinning occupies a core. If other programs have taken
// the remaining cores, the awaited peer needs this one. So the time is halved after a spin that
// ended without the peer, and doubled after one that ended with it. Every kTryAgain waits it is set
// to the maximum again.
constexpr auto kMostSpin = std::chrono::microseconds(60);
constexpr auto kLeastSpin = std::chrono::microseconds(1);
constexpr std::uint32_t kTryAgain = 64;
constexpr timespec kGlance{0, 4'000'000};  // A sleeping rank checks its peers this often.

enum What : std::uint32_t { kAllReduce = 1, kCollected, kBroadcast, kBarrier, kSum, kAcross };

std::string NameOf(std::uint32_t what) {
  constexpr const char* kNames[] = {
      "nothing",   "an all-reduce", "an all-reduce's second half", "a broadcast",
      "a barrier", "a sum",         "a sum of several nodes"};
  return what < std::size(kNames) ? kNames[what] : "an unknown operation";
}

std::size_t AreasBytes(std::size_t ranks) {
  return (ranks * sizeof(RankArea) + kPage - 1) / kPage * kPage;
}

bool Reached(std::uint32_t arrived, std::uint32_t wanted) {
  return static_cast<std::int32_t>(arrived - wanted) >= 0;  // Counters wrap.
}

// FUTEX_WAIT, not FUTEX_WAIT_PRIVATE: the ranks are different processes.
void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t seen, const timespec& limit) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void FutexWakeAll(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr,
          0);
}

// Locked by the rank, in the file that it has opened.
struct flock ByteOf(std::size_t rank) {
  return {.l_type = F_WRLCK,
          .l_whence = SEEK_SET,
          .l_start = static_cast<off_t>(rank),
          .l_len = 1,
          .l_pid = 0};
}

// Empty if the kernel does not say them.
cpu_set_t OwnCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  (void)sched_getaffinity(0, sizeof cores, &cores);
  return cores;
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

std::size_t SharedBytes(std::size_t ranks) {
  return AreasBytes(ranks) + ranks * 2 * kSlotBytes;
}

Result<SharedPages> MapShared(int memory, std::size_t rank, std::size_t ranks) {
  struct flock own = ByteOf(rank);
  if (fcntl(memory, F_OFD_SETLK, &own) != 0) {
    return SystemError("lock shared memory at", std::to_string(rank), errno);
  }
  const std::size_t bytes = SharedBytes(ranks);
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (data == MAP_FAILED) {
    return SystemError("map shared memory of bytes", std::to_string(bytes), errno);
  }
  return SharedPages(static_cast<std::byte*>(data),
                     [bytes](std::byte* mapped) { munmap(mapped, bytes); });
}

SharedWorld::SharedWorld(SharedPages pages, UniqueFd memory, std::size_t rank, std::size_t size,
                         std::chrono::milliseconds timeout)
    : pages_(std::move(pages)),
      memory_(std::move(memory)),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      numbers_(size),
      spin_(kMostSpin) {
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  CHECK(rank < size);
  std::iota(numbers_.begin(), numbers_.end(), std::size_t{0});
  RankArea& own = Area(rank);
  own.cores = OwnCores();
  own.told_cores.store(1, std::memory_order_release);
}

RankArea& SharedWorld::Area(std::size_t rank) const {
  return *reinterpret_cast<RankArea*>(pages_.get() + rank * sizeof(RankArea));
}

std::byte* SharedWorld::Slot(std::size_t rank) const {
  return pages_.get() + AreasBytes(size_) + (rank * 2 + operations_ % 2) * kSlotBytes;
}

Result<void> SharedWorld::AllReduce(Element element, std::span<std::byte> data,
                                    const Across& across) {
  CHECK(data.size() % SizeOf(element) == 0);
  const auto detail = static_cast<std::uint32_t>(element);
  for (std::size_t at = 0; at < data.size(); at += kSlotBytes) {
    const auto chunk = data.subspan(at, std::min(kSlotBytes, data.size() - at));
    RETURN_IF_ERROR(Begin());
    std::memcpy(Slot(rank_), chunk.data(), chunk.size());
    RETURN_IF_ERROR(ReduceSlots(element, {kAllReduce, detail, chunk.size()}, across, {&chunk, 1}));
  }
  return {};
}

Result<void> SharedWorld::Sum(Tensors tensors, float factor, const Across& across) {
  std::vector<std::span<std::byte>> into;
  std::size_t count = 0;
  RETURN_IF_ERROR(Begin());
  for (const std::span<float> tensor : tensors) {
    CHECK(tensor.size() <= kMostSummed - count);
    Scale(tensor.data(), factor, reinterpret_cast<float*>(Slot(rank_)) + count, tensor.size());
    count += tensor.size();
    into.push_back(std::as_writable_bytes(tensor));
  }
  return ReduceSlots(Element::kF32, {kSum, 0, count * sizeof(float)}, across, into);
}

// The bytes of all slots of this operation, one after another in `into`.
Result<void> SharedWorld::ReduceSlots(Element element, Doing doing, const Across& across,
                                      std::span<const std::span<std::byte>> into) {
  RETURN_IF_ERROR(Meet(doing));
  const bool direct = !across && (size_ == 2 || doing.bytes <= kDirectBytes);
  // Otherwise each rank reduces one share, which no other rank reads until all have met again,
  // where all then take it from.
  const std::size_t width = SizeOf(element);
  const auto begin_of = [&](std::size_t rank) {
    return doing.bytes / width * rank / size_ * width;
  };
  const auto reduced = [&](std::size_t rank) { return Slot(across ? 0 : rank); };
  if (!direct) {
    const std::size_t begin = begin_of(rank_);
    Reduce(element, reduced(rank_) + begin, begin, begin_of(rank_ + 1));
    doing.what = kCollected;
    RETURN_IF_ERROR(Meet(doing));
  }
  if (across) {
    if (rank_ == 0) {
      RETURN_IF_ERROR(Noted(across(element, {reduced(0), doing.bytes})));
    }
    doing.what = kAcross;
    RETURN_IF_ERROR(Meet(doing));
  }
  std::size_t begin = 0;
  for (const std::span<std::byte> piece : into) {
    const std::size_t end = begin + piece.size();
    if (direct) {
      Reduce(element, piece.data(), begin, end);
    }
    for (std::size_t rank = 0; rank < size_ && !direct; ++rank) {
      const std::size_t from = std::clamp(begin_of(rank), begin, end);
      const std::size_t to = std::clamp(begin_of(rank + 1), begin, end);
      std::copy(reduced(rank) + from, reduced(rank) + to, piece.data() + (from - begin));
    }
    begin = end;
  }
  return {};
}

// Bytes [begin, end) of all slots of this operation, in rank order. `into` may be their place in
// the own slot.
void SharedWorld::Reduce(Element element, std::byte* into, std::size_t begin,
                         std::size_t end) const {
  if (into == Slot(rank_) + begin && rank_ != 0) {  // By way of a buffer, piece by piece.
    alignas(64) std::byte piece[kPage];
    for (std::size_t at = begin; at < end; at += kPage) {
      const std::size_t bytes = std::min(kPage, end - at);
      Reduce(element, piece, at, at + bytes);
      std::memcpy(into + (at - begin), piece, bytes);
    }
    return;
  }
  const std::size_t count = (end - begin) / SizeOf(element);
  std::memmove(into, Slot(0) + begin, end - begin);
  for (std::size_t peer = 1; peer < size_; ++peer) {
    Add(element, into, Slot(peer) + begin, count);
  }
}

Result<void> SharedWorld::Broadcast(std::span<std::byte> data, std::size_t root) {
  CHECK(root < size_);
  for (std::size_t at = 0; at < data.size(); at += kSlotBytes) {
    const auto chunk = data.subspan(at, std::min(kSlotBytes, data.size() - at));
    RETURN_IF_ERROR(Begin());
    if (rank_ == root) {
      std::memcpy(Slot(root), chunk.data(), chunk.size());
    }
    RETURN_IF_ERROR(Meet({kBroadcast, static_cast<std::uint32_t>(root), chunk.size()}));
    if (rank_ != root) {
      std::memcpy(chunk.data(), Slot(root), chunk.size());
    }
  }
  return {};
}

Result<void> SharedWorld::Barrier() {
  RETURN_IF_ERROR(Begin());
  return Meet({kBarrier, 0, 0});
}

// The next operation, unless one has failed: peers may still be in that one. They would meet this
// one in its place, or read what this one writes.
Result<void> SharedWorld::Begin() {
  if (failed_) {
    return *failed_;
  }
  ++operations_;
  return {};
}

Result<void> SharedWorld::Noted(Result<void> done) {
  if (!done) {
    failed_ = done.error();
  }
  return done;
}

Result<void> SharedWorld::Meet(const Doing& doing) {
  RankArea& own = Area(rank_);
  ++meetings_;
  own.doing[meetings_ % 2] = doing;
  own.arrived.store(meetings_);  // Sequentially consistent, as the check in Sleep() is.
  if (own.sleepers.load() > 0) {
    FutexWakeAll(own.arrived);
  }
  for (std::size_t peer = 0; peer < size_; ++peer) {
    if (peer == rank_) {
      continue;
    }
    RETURN_IF_ERROR(Noted(WaitFor(peer)));
    const Doing& theirs = Area(peer).doing[meetings_ % 2];
    if (!(theirs == doing)) {
      return Noted(Error{ErrorKind::kSystem, "the ranks disagree: " + Name(rank_) +
                                                 " takes part in " + NameOf(doing.what) + " of " +
                                                 std::to_string(doing.bytes) + " bytes, " +
                                                 Name(peer) + " in " + NameOf(theirs.what) +
                                                 " of " + std::to_string(theirs.bytes)});
    }
  }
  return {};
}

Result<void> SharedWorld::WaitFor(std::size_t peer) {
  const std::atomic<std::uint32_t>& arrived = Area(peer).arrived;
  if (Reached(arrived.load(std::memory_order_acquire), meetings_)) {
    return {};
  }
  return MaySpin() && Spin(arrived) ? Result<void>{} : Sleep(peer);
}

bool SharedWorld::MaySpin() {
  if (spins_) {
    return *spins_;
  }
  std::vector<cpu_set_t> cores;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    if (Area(rank).told_cores.load(std::memory_order_acquire) == 0) {
      return false;  // That rank has not begun yet.
    }
    cores.push_back(Area(rank).cores);
  }
  spins_ = CoreForEach(cores);
  return *spins_;
}

// True if the peer came within the time.
bool SharedWorld::Spin(const std::atomic<std::uint32_t>& arrived) {
  if (++waits_ % kTryAgain == 0) {
    spin_ = kMostSpin;
  }
  for (const Clock::time_point until = Clock::now() + spin_; Clock::now() < until;) {
    for (int i = 0; i < 20; ++i) {
      if (Reached(arrived.load(std::memory_order_acquire), meetings_)) {
        spin_ = std::min<std::chrono::nanoseconds>(spin_ * 2, kMostSpin);
        return true;
      }
      Pause();
    }
  }
  spin_ = std::max<std::chrono::nanoseconds>(spin_ / 2, kLeastSpin);
  return false;
}

Result<void> SharedWorld::Sleep(std::size_t peer) {
  RankArea& area = Area(peer);
  const Clock::time_point deadline = Clock::now() + timeout_;
  for (;;) {
    area.sleepers.fetch_add(1);
    const std::uint32_t seen = area.arrived.load();
    if (!Reached(seen, meetings_)) {
      FutexWait(area.arrived, seen, kGlance);
    }
    area.sleepers.fetch_sub(1);
    if (Reached(area.arrived.load(std::memory_order_acquire), meetings_)) {
      return {};
    }
    Result<void> alive = CheckPeers();
    if (alive && Clock::now() > deadline) {
      const std::string time = " for " + std::to_string(timeout_.count()) + " ms";
      // Rank 0 may be there, and wait in vain itself.
      const bool across = peer == 0 && Area(rank_).doing[meetings_ % 2].what == kAcross;
      alive = Error{ErrorKind::kUnavailable,
                    across ? "received nothing from the other nodes through " + Name(peer) + time
                           : Name(peer) + " has been silent" + time};
    }
    // The peer may have come, and even have ended, just before the error was found.
    if (!alive && !Reached(area.arrived.load(), meetings_)) {
      return alive;
    }
  }
}

// An error if a peer's process has ended, or after Abort.
Result<void> SharedWorld::CheckPeers() const {
  if (aborted_.load(std::memory_order_relaxed)) {
    return Error{ErrorKind::kUnavailable, "the group was asked to stop"};
  }
  for (std::size_t peer = 0; peer < size_; ++peer) {
    struct flock lock = ByteOf(peer);
    if (peer != rank_ && fcntl(memory_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK) {
      return Error{ErrorKind::kUnavailable, "the process of " + Name(peer) + " has ended"};
    }
  }
  return {};
}

std::string SharedWorld::Name(std::size_t rank) const {
  return "rank " + std::to_string(numbers_[rank]);
}

}  // namespace ddprun

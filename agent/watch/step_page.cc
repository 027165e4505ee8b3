#include "agent/watch/step_page.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#include <utility>

#include "proto/notify.h"

namespace ddprun {
namespace {

std::uint64_t Load(std::uint64_t& word) {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

StepEntry Entry(StepPage& page, std::uint64_t number) {
  StepEntry& there = page.entries[number % kStepEntries];
  return {Load(there.step), Load(there.nanoseconds), Load(there.work_microseconds)};
}

// The worker may be writing the one that has its place, when `count` are there.
bool IsWhole(std::uint64_t number, std::uint64_t count) {
  return count > number && count - number < kStepEntries;
}

std::optional<std::uint64_t> Least(std::optional<std::uint64_t> a, std::uint64_t b) {
  return a ? std::min(*a, b) : b;
}

// In microseconds, of which `to` is the higher one.
std::optional<std::uint64_t> TimeOfAStep(const StepEntry& from, const StepEntry& to) {
  constexpr std::uint64_t kMicrosecond = 1'000;
  return to.nanoseconds < from.nanoseconds ? std::nullopt
                                           : std::optional((to.nanoseconds - from.nanoseconds) /
                                                           (to.step - from.step) / kMicrosecond);
}

}  // namespace

// The newest entry's numbers may arrive after the count, where a processor's stores change places.
std::optional<std::uint64_t> StepReader::News(StepPage& page) const {
  const std::uint64_t count = Load(page.count);
  const bool late = last_ && seen_ > 0 && Entry(page, seen_ - 1) != *last_;
  return count != seen_ || late ? std::optional(count) : std::nullopt;
}

std::optional<WorkerWord> StepReader::Read(StepPage& page, std::uint64_t most) {
  const std::uint64_t there = Load(page.count);
  const std::uint64_t count = std::min(there, most);
  if (there < seen_) {  // No worker of ours does that; later entries are as new as any.
    seen_ = 0;
    last_.reset();
  }
  if (count < seen_) {
    return std::nullopt;
  }
  std::uint64_t first = seen_;
  if (last_ && seen_ > 0 && Entry(page, seen_ - 1) != *last_) {
    --first;
    last_.reset();
  }
  first = std::max(first, count - std::min(count, kStepEntries - 1));
  std::array<StepEntry, kStepEntries> taken;
  for (std::uint64_t number = first; number < count; ++number) {
    taken[number - first] = Entry(page, number);
  }
  const std::uint64_t after = Load(page.count);
  std::optional<std::uint64_t> work, time;
  bool progress = false;
  for (std::uint64_t number = first; number < count; ++number) {
    const StepEntry& entry = taken[number - first];
    if (!IsWhole(number, after)) {
      continue;
    }
    last_ = entry;
    if (highest_ && entry.step <= highest_->step) {
      continue;
    }
    if (entry.work_microseconds != 0) {
      work = Least(work, entry.work_microseconds);
    }
    if (const auto one = highest_ ? TimeOfAStep(*highest_, entry) : std::nullopt) {
      time = Least(time, *one);
    }
    highest_ = entry;
    progress = true;
  }
  seen_ = count;
  if (!progress) {
    return std::nullopt;
  }
  WorkerWord said;
  said.step = highest_->step;
  if (const auto least = work ? work : time) {
    said.work = BoundedMicroseconds(*least);
  }
  return said;
}

void StepPages::Unmap::operator()(StepPage* page) const {
  ::munmap(page, kStepPageBytes);
}

Result<StepPages::Mapped> StepPages::Map(int fd) {
  ASSIGN_OR_RETURN(const std::uint64_t bytes, BytesOfSealed(fd));
  if (bytes != kStepPageBytes) {
    return Error{ErrorKind::kRefused, "it has " + std::to_string(bytes) + " bytes, not " +
                                          std::to_string(kStepPageBytes)};
  }
  void* const mapped = ::mmap(nullptr, kStepPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) {
    return SystemError("map", "a step page", errno);
  }
  Mapped page(static_cast<StepPage*>(mapped));
  if (Load(page->magic) != kStepPageMagic) {
    return Error{ErrorKind::kRefused, "it is not a step page"};
  }
  return page;
}

Result<std::optional<WorkerWord>> StepPages::Take(std::uint32_t local_rank, const ForeignFd& file) {
  ASSIGN_OR_RETURN(Mapped memory, Map(file->get()));
  std::optional<WorkerWord> left;
  Page& page = pages_[local_rank];
  if (page.memory) {
    // First that, then the last look: a writer looks at it after its write.
    std::atomic_ref(page.memory->reader).store(kPageIsReadNoMore, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    left = page.reader.Read(*page.memory, kAllEntries);
  }
  std::atomic_ref(memory->reader).store(kPageIsRead, std::memory_order_seq_cst);
  page = {std::move(memory), {}};
  return left;
}

std::optional<std::uint64_t> StepPages::News(std::uint32_t local_rank) const {
  const auto found = pages_.find(local_rank);
  return found == pages_.end() ? std::nullopt : found->second.reader.News(*found->second.memory);
}

std::optional<WorkerWord> StepPages::Read(std::uint32_t local_rank, std::uint64_t most) {
  const auto found = pages_.find(local_rank);
  return found == pages_.end() ? std::nullopt
                               : found->second.reader.Read(*found->second.memory, most);
}

}  // namespace ddprun

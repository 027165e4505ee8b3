#include "trainer/memory_snapshots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/text.h"
#include "proto/memory_block.h"
#include "trainer/checkpoint/memory_block.h"

namespace ddprun {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr const char* kName = "ddprun-train";
constexpr std::chrono::milliseconds kLeastPause{20};
constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW;

// Half of what an agent keeps for all of its workers (a quarter of the memory): with the spare it
// is no more than that quarter.
std::size_t MostBytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 8;
}

// The descriptor that the agent has handed on; none: -1.
int FindHandedOn() {
  const std::vector<std::string> names = Split(GetProcessEnv("LISTEN_FDNAMES").value_or(""), ':');
  const auto found = std::ranges::find(names, kName);
  return GetProcessEnv("LISTEN_PID") == std::to_string(::getpid()) && found != names.end()
             ? kFirstBlock + static_cast<int>(found - names.begin())
             : -1;
}

}  // namespace

MemorySnapshots::MemorySnapshots(const WorkerEnv& env) : notifier_(env.notify_socket) {
  if (!env.notify_socket.empty() && env.world_id.value != 0 && env.local_rank == 0) {
    copier_ = std::make_unique<SnapshotCopier>(
        [this](Snapshot&& snapshot) { Write(std::move(snapshot)); });
  }
}

MemorySnapshots::Memory MemorySnapshots::Make(std::size_t size) {
  UniqueFd file(::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, kSealed) != 0) {
    return {};
  }
  Bytes bytes = Bytes::Shared(file.get(), size);
  return {std::move(file), std::move(bytes)};
}

std::optional<Snapshot> MemorySnapshots::Find() {
  UniqueFd file(copier_ ? FindHandedOn() : -1);
  struct stat info {};
  if (!file || ::fcntl(file.get(), F_GET_SEALS) != kSealed || ::fstat(file.get(), &info) != 0 ||
      info.st_size <= 0) {
    file.Release();  // Another process's, if it is there at all.
    return std::nullopt;
  }
  ::fcntl(file.get(), F_SETFD, FD_CLOEXEC);
  kept_.bytes = Bytes::Shared(file.get(), static_cast<std::size_t>(info.st_size));
  kept_.file = std::move(file);
  Result<Snapshot> read = ReadBlock(kept_.bytes);
  return read ? std::optional(*std::move(read)) : std::nullopt;
}

bool MemorySnapshots::Ready(SteadyClock::time_point now) const {
  return !copier_ || (copier_->IsIdle() && (failed_ || now >= next_));
}

void MemorySnapshots::Begin(SnapshotView view, TrainState state) {
  if (!copier_) {
    return;
  }
  copier_->Wait();
  if (!failed_) {
    begun_ = SteadyClock::now();
    copier_->Begin(std::move(view), std::move(state), std::exchange(spent_, std::nullopt));
  }
}

void MemorySnapshots::WaitForCopy() {
  if (copier_) {
    copier_->WaitForCopy();
  }
}

// On the copier's thread.
void MemorySnapshots::Write(Snapshot&& snapshot) {
  if (!WriteBlock(spare_.bytes, snapshot)) {
    const std::size_t size = BlockBytes(snapshot);
    spare_ = size <= MostBytes() ? Make(size) : Memory();
    failed_ = !WriteBlock(spare_.bytes, snapshot);
  }
  if (failed_) {
    Log(LogLevel::kWarning,
        "cannot keep the state in memory for the next start: it is larger than 1/8 of the memory, "
        "or too little memory is free. Checkpoints are saved as usual");
  } else if (notifier_.SendWith(std::string("FDSTORE=1\nFDNAME=") + kName, spare_.file.get())) {
    std::swap(kept_, spare_);  // Else the agent is busy: it keeps the older one until next time.
  }
  spent_ = std::move(snapshot);
  const SteadyClock::time_point end = SteadyClock::now();
  const auto pause = std::chrono::duration<double>(end - begun_) / kMostCost;
  next_ = end + std::max<SteadyClock::duration>(
                    std::chrono::duration_cast<SteadyClock::duration>(pause), kLeastPause);
}

}  // namespace ddprun

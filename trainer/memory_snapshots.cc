#include "trainer/memory_snapshots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "common/files.h"
#include "common/log.h"
#include "proto/memory_block.h"
#include "proto/notify.h"

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
  const std::string pid = GetProcessEnv("LISTEN_PID").value_or("");
  if (pid != std::to_string(::getpid())) {
    return -1;
  }
  std::string names = GetProcessEnv("LISTEN_FDNAMES").value_or("") + ":";
  for (int fd = kFirstBlock; !names.empty(); ++fd) {
    const std::size_t colon = names.find(':');
    if (names.substr(0, colon) == kName) {
      return fd;
    }
    names.erase(0, colon + 1);
  }
  return -1;
}

// A sealed memory file and its bytes, shared with whoever has the file. Empty: none.
class Memory {
 public:
  Memory() = default;
  Memory(UniqueFd file, std::size_t size) : file_(std::move(file)) {
    void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd(), 0);
    if (mapped != MAP_FAILED) {
      bytes_ = {static_cast<char*>(mapped), size};
    }
  }
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory() {
    if (!bytes_.empty()) {
      ::munmap(bytes_.data(), bytes_.size());
    }
  }
  int fd() const { return file_.get(); }
  std::span<char> bytes() const { return bytes_; }

 private:
  UniqueFd file_;
  std::span<char> bytes_;
};

Memory Make(std::size_t size) {
  UniqueFd file(::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, kSealed) != 0) {
    return {};
  }
  return {std::move(file), size};
}

}  // namespace

// Who writes it has `kept` and `spare`; `next`, `busy` and `failed` are seen by the loop too.
struct MemorySnapshots::Slot {
  explicit Slot(const WorkerEnv& env)
      : notifier(env.notify_socket),
        on(!env.notify_socket.empty() && env.world_id.value != 0 && env.local_rank == 0) {}

  void Open();
  void Write(Snapshot&& snapshot, const BlockFacts& facts, SteadyClock::duration copying);
  bool WriteSpare(const Snapshot& snapshot, const BlockFacts& facts);

  const Notifier notifier;
  const bool on;
  Memory kept;
  Memory spare;
  std::mutex mutex;  // For the spent one.
  std::optional<Snapshot> spent;
  std::atomic<SteadyClock::time_point> next = SteadyClock::now();
  std::atomic<bool> busy = false;
  std::atomic<bool> failed = false;
};

void MemorySnapshots::Slot::Open() {
  UniqueFd file(FindHandedOn());
  struct stat info {};
  if (!file || ::fcntl(file.get(), F_GET_SEALS) != kSealed || ::fstat(file.get(), &info) != 0 ||
      info.st_size <= 0) {
    file.Release();  // Somebody else's, if it is there at all.
    return;
  }
  ::fcntl(file.get(), F_SETFD, FD_CLOEXEC);
  kept = Memory(std::move(file), static_cast<std::size_t>(info.st_size));
}

bool MemorySnapshots::Slot::WriteSpare(const Snapshot& snapshot, const BlockFacts& facts) {
  if (WriteBlock(spare.bytes(), snapshot, facts)) {
    return true;
  }
  const std::size_t size = BlockBytes(snapshot, facts);
  spare = size <= MostBytes() ? Make(size) : Memory();
  return WriteBlock(spare.bytes(), snapshot, facts);
}

void MemorySnapshots::Slot::Write(Snapshot&& snapshot, const BlockFacts& facts,
                                  SteadyClock::duration copying) {
  const SteadyClock::time_point start = SteadyClock::now();
  if (!WriteSpare(snapshot, facts)) {
    failed = true;
    Log(LogLevel::kWarning,
        "the state is not kept in memory for the next start: it is larger than 1/8 of the memory, "
        "or there is no room; checkpoints are made as always");
  } else if (notifier.SendWith(std::string("FDSTORE=1\nFDNAME=") + kName, spare.fd())) {
    std::swap(kept, spare);  // Else the agent is busy: it keeps the older one until next time.
  }
  {
    const std::lock_guard lock(mutex);
    spent = std::move(snapshot);
  }
  const SteadyClock::time_point end = SteadyClock::now();
  const auto pause = std::chrono::duration<double>(copying + (end - start)) / kMostCost;
  next = end + std::max<SteadyClock::duration>(
                   std::chrono::duration_cast<SteadyClock::duration>(pause), kLeastPause);
  busy = false;
}

MemorySnapshots::MemorySnapshots(const WorkerEnv& env)
    : slot_(std::make_shared<Slot>(env)),
      copier_(slot_->on ? std::make_unique<SnapshotCopier>(
                              [this](Snapshot&& snapshot) { HandOver(std::move(snapshot)); })
                        : nullptr) {}

MemorySnapshots::~MemorySnapshots() = default;

std::optional<MemorySnapshot> MemorySnapshots::Find() {
  if (!slot_->on) {
    return std::nullopt;
  }
  slot_->Open();
  Result<MemorySnapshot> read = ReadBlock(slot_->kept.bytes());
  return read ? std::optional(*std::move(read)) : std::nullopt;
}

void MemorySnapshots::CountStart() {
  ddprun::CountStart(slot_->kept.bytes());
}

bool MemorySnapshots::Ready(SteadyClock::time_point now) const {
  return !slot_->on || slot_->failed || (!slot_->busy && now >= slot_->next.load());
}

void MemorySnapshots::Begin(SnapshotView view, TrainState state, BlockFacts facts) {
  if (!slot_->on || slot_->failed) {
    return;
  }
  slot_->busy = true;
  begun_ = SteadyClock::now();
  facts_ = std::move(facts);
  std::optional<Snapshot> spent;
  {
    const std::lock_guard lock(slot_->mutex);
    spent = std::exchange(slot_->spent, std::nullopt);
  }
  copier_->Begin(std::move(view), std::move(state), std::move(spent));
}

void MemorySnapshots::WaitForCopy() {
  if (copier_) {
    copier_->Wait();
  }
}

// On the copier's thread.
void MemorySnapshots::HandOver(Snapshot&& snapshot) {
  const auto shared = std::make_shared<Snapshot>(std::move(snapshot));
  thread_.Post([slot = slot_, shared, facts = facts_, copying = SteadyClock::now() - begun_] {
    slot->Write(std::move(*shared), facts, copying);
  });
}

}  // namespace ddprun

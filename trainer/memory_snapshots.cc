#include "trainer/memory_snapshots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <mutex>
#include <string>
#include <utility>

#include "common/files.h"
#include "common/log.h"
#include "proto/memory_block.h"
#include "proto/notify.h"

namespace ddprun {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kBlocks = 2;
constexpr std::chrono::milliseconds kLeastPause{20};
constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW;

std::string NameOf(int block) {
  return "ddprun-train." + std::to_string(block);
}

// Of one block: of the quarter of the memory that an agent keeps for all of its workers half is for
// the first one, and the others share the rest. So what fits one rank is not lost because there are
// many.
std::size_t MostBytes(const WorkerEnv& env) {
  const std::size_t sixteenth = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
                                static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 16;
  return env.local_rank == 0 ? sixteenth
                             : sixteenth / std::max<std::size_t>(env.local_world_size - 1, 1);
}

// The descriptor that the agent has handed on under this name.
std::optional<int> FindHandedOn(const std::string& wanted) {
  const std::string pid = GetProcessEnv("LISTEN_PID").value_or("");
  if (pid != std::to_string(::getpid())) {
    return std::nullopt;
  }
  std::string names = GetProcessEnv("LISTEN_FDNAMES").value_or("") + ":";
  for (int fd = kFirstBlock; !names.empty(); ++fd) {
    const std::size_t colon = names.find(':');
    if (names.substr(0, colon) == wanted) {
      return fd;
    }
    names.erase(0, colon + 1);
  }
  return std::nullopt;
}

// Memory of this process, and of whoever has the same file.
class Mapping {
 public:
  Mapping() = default;
  Mapping(int fd, std::size_t size) {
    void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) {
      bytes_ = {static_cast<char*>(mapped), size};
    }
  }
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (!bytes_.empty()) {
      ::munmap(bytes_.data(), bytes_.size());
    }
  }
  std::span<char> bytes() const { return bytes_; }

 private:
  std::span<char> bytes_;
};

}  // namespace

// Two blocks, and who writes them. `next` and `busy` are seen by the loop too.
struct MemorySnapshots::Blocks {
  explicit Blocks(const WorkerEnv& env)
      : notifier(env.notify_socket),
        on(!env.notify_socket.empty() && env.world_id.value != 0),
        most_bytes(MostBytes(env)) {}

  void Open();
  void Write(Snapshot&& snapshot, const BlockFacts& facts, SteadyClock::duration copying);
  bool WriteOlder(const Snapshot& snapshot, const BlockFacts& facts);
  bool Renew(int block, std::size_t size);

  const Notifier notifier;
  const bool on;
  const std::size_t most_bytes;
  std::array<Mapping, kBlocks> mapped;
  std::uint64_t sequence = 0;  // The highest so far.
  std::mutex mutex;            // For the spent one.
  std::optional<Snapshot> spent;
  std::atomic<SteadyClock::time_point> next = SteadyClock::now();
  std::atomic<bool> busy = false;
  std::atomic<bool> failed = false;
};

void MemorySnapshots::Blocks::Open() {
  for (int i = 0; i < kBlocks; ++i) {
    const std::optional<int> fd = FindHandedOn(NameOf(i));
    struct stat info {};
    if (fd && ::fcntl(*fd, F_GET_SEALS) == kSealed && ::fstat(*fd, &info) == 0 &&
        info.st_size > 0) {
      ::fcntl(*fd, F_SETFD, FD_CLOEXEC);
      mapped[i] = Mapping(*fd, static_cast<std::size_t>(info.st_size));
      sequence = std::max(sequence, SequenceOf(mapped[i].bytes()));
    }
  }
}

// In place of what has the name; kept by the agent from here on.
bool MemorySnapshots::Blocks::Renew(int block, std::size_t size) {
  if (size > most_bytes) {
    return false;
  }
  const UniqueFd file(::memfd_create(NameOf(block).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, kSealed) != 0) {
    return false;
  }
  Mapping made(file.get(), size);
  if (made.bytes().empty() ||
      !notifier.SendWith("FDSTORE=1\nFDNAME=" + NameOf(block), file.get())) {
    return false;
  }
  mapped[block] = std::move(made);
  return true;
}

bool MemorySnapshots::Blocks::WriteOlder(const Snapshot& snapshot, const BlockFacts& facts) {
  const int older = SequenceOf(mapped[0].bytes()) <= SequenceOf(mapped[1].bytes()) ? 0 : 1;
  return WriteBlock(mapped[older].bytes(), sequence + 1, snapshot, facts) ||
         (Renew(older, BlockBytes(snapshot, facts)) &&
          WriteBlock(mapped[older].bytes(), sequence + 1, snapshot, facts));
}

void MemorySnapshots::Blocks::Write(Snapshot&& snapshot, const BlockFacts& facts,
                                    SteadyClock::duration copying) {
  const SteadyClock::time_point start = SteadyClock::now();
  if (WriteOlder(snapshot, facts)) {
    ++sequence;
  } else if (!failed.exchange(true)) {
    Log(LogLevel::kWarning,
        "this rank's state is not kept in memory for the next start: the agent does not take it, "
        "or "
        "it is larger than 1/16 of the memory, which all ranks of a node but its first one share; "
        "checkpoints are made as always");
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
    : blocks_(std::make_shared<Blocks>(env)),
      copier_(blocks_->on ? std::make_unique<SnapshotCopier>(
                                [this](Snapshot&& snapshot) { HandOver(std::move(snapshot)); })
                          : nullptr) {}

MemorySnapshots::~MemorySnapshots() = default;

std::vector<MemorySnapshot> MemorySnapshots::Find() {
  std::vector<MemorySnapshot> found;
  if (!blocks_->on) {
    return found;
  }
  blocks_->Open();
  for (const Mapping& mapping : blocks_->mapped) {
    if (Result<MemorySnapshot> read = ReadBlock(mapping.bytes())) {
      found.push_back(*std::move(read));
    }
  }
  return found;
}

void MemorySnapshots::CountStart(std::uint64_t sequence) {
  for (const Mapping& mapping : blocks_->mapped) {
    if (SequenceOf(mapping.bytes()) == sequence) {
      ddprun::CountStart(mapping.bytes());
    }
  }
}

bool MemorySnapshots::Ready(SteadyClock::time_point now) const {
  return !blocks_->on || blocks_->failed || (!blocks_->busy && now >= blocks_->next.load());
}

void MemorySnapshots::Begin(SnapshotView view, TrainState state, BlockFacts facts) {
  if (!blocks_->on || blocks_->failed) {
    return;
  }
  blocks_->busy = true;
  begun_ = SteadyClock::now();
  facts_ = std::move(facts);
  std::optional<Snapshot> spent;
  {
    const std::lock_guard lock(blocks_->mutex);
    spent = std::exchange(blocks_->spent, std::nullopt);
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
  thread_.Post([blocks = blocks_, shared, facts = facts_, copying = SteadyClock::now() - begun_] {
    blocks->Write(std::move(*shared), facts, copying);
  });
}

}  // namespace ddprun

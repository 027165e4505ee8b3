#include "agent/watch/life_locks.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "agent/workers/process_tree.h"
#include "common/files.h"
#include "proto/life_lock.h"

namespace ddprun {
namespace {

// One worker's wake-ups: it takes its lock, says so, is waited for, dies.
constexpr std::size_t kWakesOfOne = 4;
// Of StatOf.
constexpr std::size_t kFlags = 9 - kFirstOfStat, kPending = 31 - kFirstOfStat,
                      kExitCode = 52 - kFirstOfStat;

bool IsExiting(const std::vector<std::uint64_t>& stat) {
  constexpr std::uint64_t kExiting = 0x4;  // PF_EXITING.
  return (stat[kFlags] & kExiting) != 0;
}

// A signal that ends a process is put on each of its threads, so one of them speaks for all.
bool OthersLive(const std::filesystem::path& process) {
  constexpr std::uint64_t kKill = 1 << (SIGKILL - 1);
  for (const std::filesystem::path& thread : EntriesOf(process / "task")) {
    if (thread.filename() != process.filename()) {
      if (const auto other = StatOf(thread); !other.empty() && !IsExiting(other)) {
        return (other[kPending] & kKill) == 0;
      }
    }
  }
  return false;
}

// This thread is woken on the CPU that the dying worker uses. A task with a short slice does not
// wait for the end of the worker's (Linux 6.12; elsewhere this changes nothing).
void AskForShortSlices() {
  struct {  // sched_attr of linux/sched/types.h, which glibc may define too.
    std::uint32_t size = 48, policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = ::getpriority(PRIO_PROCESS, 0);
    std::uint32_t priority = 0;
    std::uint64_t nanoseconds = 100'000, deadline = 0, period = 0;
  } wanted;
  static_assert(sizeof wanted == 48);
  ::syscall(SYS_sched_setattr, 0, &wanted, 0);
}

std::uint32_t WordNow(std::uint32_t& word) {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

}  // namespace

bool IsDying(pid_t process) {
  // A thread has taken SIGKILL for a moment before it is exiting.
  constexpr int kLooks = 3;
  constexpr std::chrono::microseconds kMoment(300);
  const std::filesystem::path path = "/proc/" + std::to_string(process);
  const std::vector<std::uint64_t> first = StatOf(path);
  if (first.empty() || !IsExiting(first) || first[kExitCode] == 0) {
    return false;
  }
  for (int look = 1; OthersLive(path); ++look) {
    if (look == kLooks) {
      return false;
    }
    std::this_thread::sleep_for(kMoment);
  }
  return true;
}

struct LifeLockWatch::State : std::enable_shared_from_this<State> {
  struct Worker {
    std::uint32_t local_rank = 0;
    pid_t process = 0;
    std::uint32_t value = 0;  // Of its word, as it was last.
  };

  State(Loop& the_loop, std::function<void(std::uint32_t, pid_t)> to_tell)
      : loop(the_loop), dying(std::move(to_tell)) {}
  ~State();

  void Set(std::vector<Worker> whom, bool ends);
  void Work();
  std::vector<Worker> TakeMarked();
  bool Wait(std::unique_lock<std::mutex>& lock);
  std::uint32_t& WordOf(const Worker& worker) { return page->locks[worker.local_rank].word(); }

  Loop& loop;                                       // While it is not over.
  std::function<void(std::uint32_t, pid_t)> dying;  // On the loop.
  UniqueFd file;
  LifeLocks* page = nullptr;

  std::mutex mutex;  // Of what follows.
  bool over = false;
  std::vector<Worker> workers;
  std::size_t wakes_left = 0;
  std::uint32_t changes = 0;  // The thread waits on it too.
};

LifeLockWatch::State::~State() {
  if (page != nullptr) {
    ::munmap(page, sizeof *page);
  }
}

void LifeLockWatch::State::Set(std::vector<Worker> whom, bool ends) {
  const std::lock_guard lock(mutex);
  over = ends;
  workers = std::move(whom);
  wakes_left = kWakesOfOne * workers.size() + 1;
  std::atomic_ref(changes).fetch_add(1);
  ::syscall(SYS_futex, &changes, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// Those whose lock is marked. The thread waits neither for these nor for those whose word is wrong.
std::vector<LifeLockWatch::State::Worker> LifeLockWatch::State::TakeMarked() {
  std::vector<Worker> marked;
  std::erase_if(workers, [&](Worker& worker) {
    worker.value = WordNow(WordOf(worker));
    const std::uint32_t owner = worker.value & ~FUTEX_WAITERS;
    if ((worker.value & FUTEX_OWNER_DIED) != 0) {
      marked.push_back(worker);
    }
    return owner != 0 && owner != static_cast<std::uint32_t>(worker.process);
  });
  return marked;
}

// False: this kernel cannot wait so.
bool LifeLockWatch::State::Wait(std::unique_lock<std::mutex>& lock) {
  std::vector<futex_waitv> words;
  const auto add = [&](std::uint32_t& word, std::uint32_t value) {
    words.push_back({value, reinterpret_cast<std::uint64_t>(&word), FUTEX_32, 0});
  };
  add(changes, changes);
  for (const Worker& worker : workers) {
    add(WordOf(worker), worker.value);
  }
  lock.unlock();
  const auto woken = ::syscall(SYS_futex_waitv, words.data(), words.size(), 0, nullptr, 0);
  const int error = errno;
  lock.lock();
  if (wakes_left == 0 || --wakes_left == 0) {
    workers.clear();
  }
  return woken >= 0 || error == EAGAIN || error == EINTR;
}

void LifeLockWatch::State::Work() {
  AskForShortSlices();
  std::unique_lock lock(mutex);
  while (!over) {
    const std::vector<Worker> marked = TakeMarked();
    if (marked.empty() && !Wait(lock)) {
      return;
    }
    for (const Worker& worker : marked) {
      lock.unlock();
      const bool is_dying = IsDying(worker.process);
      lock.lock();
      if (is_dying && !over) {
        loop.Post([self = shared_from_this(), worker] {
          if (self->dying) {
            self->dying(worker.local_rank, worker.process);
          }
        });
      }
    }
  }
}

LifeLockWatch::LifeLockWatch(Loop& loop, std::function<void(std::uint32_t, pid_t)> dying)
    : state_(std::make_shared<State>(loop, std::move(dying))) {}

LifeLockWatch::~LifeLockWatch() {
  state_->dying = nullptr;
  state_->Set({}, true);
}

std::string LifeLockWatch::Offer() {
  End();
  State& state = *state_;
  if (state.page == nullptr) {
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    UniqueFd made(::memfd_create(kLifeLocksName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!made || ::ftruncate(made.get(), sizeof(LifeLocks)) != 0 ||
        ::fcntl(made.get(), F_ADD_SEALS, kSeals) != 0) {
      return "";
    }
    void* const mapped =
        ::mmap(nullptr, sizeof(LifeLocks), PROT_READ | PROT_WRITE, MAP_SHARED, made.get(), 0);
    if (mapped == MAP_FAILED) {
      return "";
    }
    state.page = static_cast<LifeLocks*>(mapped);
    state.file = std::move(made);
    StartThread([state = state_] { state->Work(); });  // Without it there are no hints.
  }
  for (LifeLock& lock : state.page->locks) {
    std::atomic_ref(lock.word()).store(0, std::memory_order_release);
  }
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(state.file.get());
}

void LifeLockWatch::Watch(const std::vector<pid_t>& workers) {
  std::vector<State::Worker> whom;
  for (std::size_t local = 0; local < std::min<std::size_t>(workers.size(), kLifeLocks); ++local) {
    if (workers[local] != 0) {
      whom.push_back({static_cast<std::uint32_t>(local), workers[local]});
    }
  }
  if (state_->page != nullptr && !whom.empty()) {
    state_->Set(std::move(whom), false);
  }
}

void LifeLockWatch::End() {
  state_->Set({}, false);
}

std::string LifeLockOf(const std::string& file, std::uint32_t local_rank) {
  return file.empty() || local_rank >= kLifeLocks ? "" : std::to_string(local_rank) + ":" + file;
}

}  // namespace ddprun

#include "agent/survivors.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "agent/workers/process_tree.h"
#include "common/files.h"

namespace ddprun {
namespace {

constexpr Duration kLook{100};
constexpr std::uint32_t kLooksPerMeasurement = 10;
// Threads that only wait, as NCCL's watchdog, wake up and use a little.
constexpr std::uint64_t kIdleTicks = 1;

}  // namespace

Survivors::Work Survivors::WorkOf(pid_t pid) {
  constexpr std::size_t kUser = 14 - kFirstOfStat, kSystem = 15 - kFirstOfStat;  // CPU times.
  Work work;
  const std::vector<std::uint64_t> stat = StatOf("/proc/" + std::to_string(pid));
  work.ticks = stat.empty() ? 0 : stat[kUser] + stat[kSystem];
  work.written = NumberInProcFile(pid, "io", "wchar:", 10).value_or(0);
  return work;
}

// A worker, and what an ended one left in its session, are children of this process.
Survivors::Trees Survivors::TreesOf(const std::set<pid_t>& sessions) {
  Trees trees;
  for (const pid_t child : ChildrenOf(::getpid())) {
    const pid_t session = ::getsid(child);
    if (sessions.contains(session)) {
      std::vector<pid_t>& tree = trees[session];
      tree.push_back(child);
      std::ranges::copy(DescendantsOf(child, {}), std::back_inserter(tree));
    }
  }
  return trees;
}

void Survivors::NoteHandlers() {
  for (const auto& [session, tree] : TreesOf(sessions_())) {
    std::ranges::for_each(tree, [this](pid_t pid) { NoteHandler(pid); });
  }
}

void Survivors::NoteHandler(pid_t pid) {
  if (Catches(pid, SIGTERM) == true) {
    catching_.insert(pid);
  }
}

void Survivors::Watch() {
  looks_ = 0;
  timer_.ArmAt(loop_.Now() + kLook, [this] { Look(); });
}

void Survivors::Forget() {
  timer_.Cancel();
  catching_.clear();
  seen_.clear();
}

void Survivors::Look() {
  const std::set<pid_t> sessions = sessions_();
  if (sessions.empty()) {
    Forget();
    return;
  }
  TellAgain(sessions);
  const bool measures = looks_++ % kLooksPerMeasurement == 0;
  const bool first = seen_.empty();
  timer_.ArmAt(loop_.Now() + kLook, [this] { Look(); });
  if (measures && Measure(sessions) && !first) {
    active_();
  }
}

void Survivors::TellAgain(const std::set<pid_t>& sessions) const {
  for (const pid_t pid : catching_) {
    // The pidfd pins the process, so what is asked afterwards is true of the one that is signalled.
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (pidfd && sessions.contains(::getsid(pid)) && Catches(pid, SIGTERM) == false) {
      ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGTERM, nullptr, 0);
    }
  }
}

// Of each worker all of its descendants count: it may be a shell, and what saves its child.
bool Survivors::Measure(const std::set<pid_t>& sessions) {
  bool active = false;
  std::map<pid_t, Work> now;
  for (const auto& [session, tree] : TreesOf(sessions)) {
    bool catches = false;
    bool works = false;
    for (const pid_t pid : tree) {
      NoteHandler(pid);
      catches |= catching_.contains(pid);
      const Work& before = seen_[pid];  // A new one has done nothing before.
      const Work work = now[pid] = WorkOf(pid);
      works |= work.ticks > before.ticks + kIdleTicks || work.written > before.written;
    }
    active |= catches && works;
  }
  seen_ = std::move(now);
  return active;
}

}  // namespace ddprun

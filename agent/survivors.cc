#include "agent/survivors.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "agent/workers/process_tree.h"
#include "common/files.h"

namespace ddprun {
namespace {

constexpr Duration kLook{100};
constexpr std::uint32_t kLooksPerMeasurement = 10;
// Threads that only wait, as NCCL's watchdog, wake up and use a little.
constexpr std::uint64_t kIdleTicks = 1;

// The number that follows the label; none: the process is gone, or the kernel does not say.
std::optional<std::uint64_t> NumberAfter(const std::string& text, const std::string& label,
                                         int base) {
  const std::size_t at = text.find(label);
  return at == std::string::npos ? std::nullopt
                                 : std::optional<std::uint64_t>(std::strtoull(
                                       text.c_str() + at + label.size(), nullptr, base));
}

std::optional<bool> CatchesTerm(pid_t pid) {
  const auto caught = NumberAfter(ReadProcFile(pid, "status"), "\nSigCgt:", 16);
  return caught ? std::optional((*caught >> (SIGTERM - 1) & 1) != 0) : std::nullopt;
}

std::vector<pid_t> TreeOf(pid_t worker) {
  std::vector<pid_t> tree = DescendantsOf(worker, {});
  tree.push_back(worker);
  return tree;
}

}  // namespace

Survivors::Work Survivors::WorkOf(pid_t pid) {
  constexpr std::size_t kUser = 14 - kFirstOfStat, kSystem = 15 - kFirstOfStat;  // CPU times.
  Work work;
  const std::vector<std::uint64_t> stat = StatOf("/proc/" + std::to_string(pid));
  work.ticks = stat.empty() ? 0 : stat[kUser] + stat[kSystem];
  work.written = NumberAfter(ReadProcFile(pid, "io"), "wchar:", 10).value_or(0);
  return work;
}

void Survivors::NoteHandlers() {
  for (const pid_t worker : running_()) {
    for (const pid_t pid : TreeOf(worker)) {
      NoteHandler(pid);
    }
  }
}

void Survivors::NoteHandler(pid_t pid) {
  if (CatchesTerm(pid) == true) {
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
  const std::set<pid_t> workers = running_();
  if (workers.empty()) {
    Forget();
    return;
  }
  TellAgain(workers);
  const bool measures = looks_++ % kLooksPerMeasurement == 0;
  const bool first = seen_.empty();
  timer_.ArmAt(loop_.Now() + kLook, [this] { Look(); });
  if (measures && Measure(workers) && !first) {
    active_();
  }
}

void Survivors::TellAgain(const std::set<pid_t>& workers) const {
  for (const pid_t pid : catching_) {
    // The pidfd pins the process, so what is asked afterwards is true of the one that is signalled.
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (pidfd && workers.contains(::getsid(pid)) && CatchesTerm(pid) == false) {
      ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGTERM, nullptr, 0);
    }
  }
}

// Of each worker all of its descendants count: it may be a shell, and what saves its child.
bool Survivors::Measure(const std::set<pid_t>& workers) {
  bool active = false;
  std::map<pid_t, Work> now;
  for (const pid_t worker : workers) {
    bool catches = false;
    bool works = false;
    for (const pid_t pid : TreeOf(worker)) {
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

// The descendants of a process, read from /proc, and signals that cannot hit a foreign process.
//
// A process id is only safe to signal while its process cannot be reaped: direct children are
// reaped by this process alone, and all others are reached through a pidfd that was checked after
// it was opened.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// A file of /proc/<pid>; empty: the process is gone, or another user's.
std::string ReadProcFile(pid_t pid, const char* name);

// A variable with which it was executed; "": it has none, is gone, or another user's. A forked
// worker has none.
std::string VariableOf(pid_t pid, std::string_view name);

// The number after `label` in a file of /proc/<pid>; none: the process is gone, or the kernel does
// not say.
std::optional<std::uint64_t> NumberInProcFile(pid_t pid, const char* name, const std::string& label,
                                              int base);

// Whether it has a handler for this signal, or blocks it in its first thread, as one with a thread
// that waits for it (sigwait) or with a signalfd does; none: it is gone.
std::optional<bool> Catches(pid_t pid, int signal);

// The numbers in a task's `stat` file (proc(5)), from the fourth field, the parent, to the exit
// code. Fields that this kernel does not have are 0. Empty: the task is gone.
std::vector<std::uint64_t> StatOf(const std::filesystem::path& task);
inline constexpr std::size_t kFirstOfStat = 4;

// Direct children of `pid`, zombies too. May miss one that is born or re-parented meanwhile, so
// a caller that needs certainty asks again after acting.
std::vector<pid_t> ChildrenOf(pid_t pid);

// Children, their children, and so on; each once, and none that descends from `skipped` only.
std::vector<pid_t> DescendantsOf(pid_t pid, const std::set<pid_t>& skipped);

// Also one whose parents have ended, as long as it is in the session that `ancestor` leads.
bool DescendsFrom(pid_t pid, pid_t ancestor);

// The purpose of a process, by its command line. A tidying process waits for its clients to end,
// then removes their segments from shared memory and ends by itself. Killed with its clients it
// would leave those segments in /dev/shm for good, so it gets no signal.
enum class Purpose {
  kOther,
  kUnknown,    // It has no command line: it is in execve, or ending. Look again before a kill.
  kTidySoon,   // Python's resource_tracker, also loky's and multiprocess's: some 10 ms. The next
               // generation waits for it, since it may use the same names.
  kTidyLater,  // torch_shm_manager: 2 s. Only the guard waits for it.
};
Purpose PurposeOf(pid_t pid);
bool TidiesUp(pid_t pid);

// Called with each process just before it is signalled.
using BeforeSignal = std::function<void(pid_t)>;

enum class Within { kSession, kGroup };

// Sends `signals`, in order, to those of `descendants` in one of these sessions or groups, but
// their leaders and what tidies up. How many there were: one that was just being forked, or for
// SIGKILL is in execve, is met by the next call.
std::size_t SignalMembers(Within within, const std::set<pid_t>& leaders,
                          const std::vector<pid_t>& descendants, const std::vector<int>& signals,
                          const BeforeSignal& before = nullptr);

// Which children are meant. A worker begins a session of its own, and no process can join another
// one's, so no worker and nothing that one leaves is ever in this process's session; processes that
// this process starts for itself are (WorkerSpec::helper).
enum class Reach { kEverybody, kWhatWorkersLeave };

// Direct children not in `spared`: takes the status of the dead, returns the living. Never touches
// a spared one.
std::vector<pid_t> ReapChildren(const std::set<pid_t>& spared, Reach reach);

// The same, but kills the living, and returns none that tidies up. Their own children come to this
// process (a subreaper) as they die, so a caller that wants them all gone sweeps until nothing is
// returned.
std::vector<pid_t> SweepChildren(const std::set<pid_t>& spared, Reach reach,
                                 const BeforeSignal& before = nullptr);

// Whether no process is left that SweepChildren(spared, reach) would kill. One sweep may miss a
// process that is changing parents, so the kernel is asked, or there is a second sweep.
bool NothingIsLeft(Reach reach, const BeforeSignal& before = nullptr,
                   const std::set<pid_t>& spared = {});

}  // namespace ddprun

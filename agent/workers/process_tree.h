// Who descends from whom, read from /proc, and signals that cannot hit a stranger.
//
// A process id is only safe to signal while nobody can reap it: direct children are (only this
// process reaps them), all others are reached through a pidfd that was checked after it was opened.
#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

namespace ddprun {

// Direct children of `pid`, zombies too. May miss one that is born or re-parented meanwhile, so
// whoever needs certainty asks again after acting.
std::vector<pid_t> ChildrenOf(pid_t pid);

// Children, their children, and so on; each once, and none that descends from `skipped` only.
std::vector<pid_t> DescendantsOf(pid_t pid, const std::set<pid_t>& skipped);

// Also one whose parents have ended, as long as it is in the session that `ancestor` leads.
bool DescendsFrom(pid_t pid, pid_t ancestor);

// Sends `signals`, in order, to every descendant of this process that is in one of the sessions but
// not in the process group of the session's leader (that one is signalled as a group). Descendants
// of `skipped` are not looked at.
void SignalSessions(const std::set<pid_t>& sessions, const std::set<pid_t>& skipped,
                    const std::vector<int>& signals);

// Whose children are meant. A worker begins a session of its own, and nobody can join another's, so
// no worker and nothing that one leaves is ever in this process's session; what this process starts
// for itself is (WorkerSpec::helper).
enum class Reach { kEverybody, kWhatWorkersLeave };

// Direct children not in `spared`: takes the status of the dead, returns the living. Never touches
// a spared one.
std::vector<pid_t> ReapChildren(const std::set<pid_t>& spared, Reach reach);

// The same, and kills the living. Their own children come to this process (a subreaper) as they
// die, so whoever wants them all gone sweeps until nothing is returned.
std::vector<pid_t> SweepChildren(const std::set<pid_t>& spared, Reach reach);

// Whether this process has a child in its own session.
bool HasHelpers();

}  // namespace ddprun

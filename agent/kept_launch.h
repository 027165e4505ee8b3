// A launch that begins in a preload process of the run before (proto/kept_preload_process.h): this
// process is its guard or its agent, and `ddprun` at the user's shell stands for both.
//
//   begins                         | the guard                          | the agent
//   -------------------------------|------------------------------------|---------------------------
//   BeginKept                      | tells what it has inherited, and   | waits for the guard's go
//                                  | waits for ddprun's go              |
//   RunGuarded (guard.h)           | lets the agent go                  | is it
//   ddprun passes a signal on      | as a signal of its own             |
//   ddprun has ended               | as if it were killed itself:       |
//                                  | nothing of the run is left         |
//   end                            | says its exit code                 |
//
// Without go the process ends, and nothing has happened.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "agent/workers/kept_preload.h"
#include "common/files.h"

namespace ddprun {

struct KeptLaunch {
  enum class Role { kNone, kGuard, kAgent };
  Role role = Role::kNone;
  UniqueFd link;                          // Between guard and agent.
  UniqueFd connection;                    // The guard's, to ddprun.
  pid_t agent = 0;                        // The guard's child.
  std::shared_ptr<GivenPreload> preload;  // The agent's.
};

// Of this process. Role::kNone: an ordinary launch.
KeptLaunch& OwnKeptLaunch();

// The first step of main: reads kKeptVariable and removes it from the environment.
void BeginKept();

// The last one: tells ddprun the exit code, if this is a guard.
void EndKept(int code);

// The properties that a process inherits and a program may notice: user, groups, capabilities,
// limits, control groups, namespaces, CPUs, memory policy, priorities, umask. Environment and
// descriptors are not among them. "": unknown.
std::string InheritedState();

}  // namespace ddprun

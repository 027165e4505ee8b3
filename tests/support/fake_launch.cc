// fake_launch WORKERS PROGRAM [ARGS]: guard, agent and workers with the simplest driver there can
// be, for tests of guard and runner alone.
//
// Says each signal the guard passes on ("signal 15") on stdout and passes it to the workers. Exits
// with the first worker's failure, or 0.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "agent/guard.h"
#include "agent/last_sweep.h"
#include "agent/workers/process_runner.h"
#include "agent/workers/worker_spec.h"
#include "common/log.h"

namespace {

int RunAgent(ddprun::GuardLink link, std::uint32_t workers, const ddprun::Command& command) {
  using namespace ddprun;
  StartLog("fake_launch", LogLevel::kInfo);
  AsioLoop loop;
  int code = 0;
  ProcessRunner runner(loop, {},
                       {.on_ended =
                            [&](std::uint32_t, ExitStatus status, const LastErrors&) {
                              if (code == 0 && !Succeeded(status)) {
                                code = ShellCode(status);
                                runner.SignalAll(SIGTERM);
                              }
                            },
                        .on_all_gone = [&] { loop.Stop(); }});
  const auto pass_on = [&](int signal) {
    if (signal == SIGWINCH) {
      runner.SetWindows();
      return;
    }
    pollfd room{STDOUT_FILENO, POLLOUT, 0};
    if (::poll(&room, 1, 0) == 1) {  // Blocked output must not freeze the loop.
      std::cout << "signal " << signal << std::endl;
    }
    runner.SignalAll(signal);
  };
  bool started = false;
  std::vector<int>
      early;  // Passed on once there are workers: a start that is given up has no code.
  link.Watch(
      loop,
      [&](int signal) {
        if (started) {
          pass_on(signal);
        } else {
          early.push_back(signal);
        }
      },
      [] {
        KillAllDescendants(std::chrono::seconds(10));
        std::_Exit(1);
      });
  std::vector<WorkerSpec> specs;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    const WorkerEnv env{
        .rank = rank, .local_rank = rank, .world_size = workers, .local_world_size = workers};
    specs.push_back(MakeWorkerSpec(command, env, ProcessEnvironment(), {}));
  }
  runner.Spawn([specs](SpawnContext&) -> Result<std::vector<WorkerSpec>> { return specs; },
               [&](const Result<void>& spawned) {
                 started = true;
                 if (!spawned) {
                   Log(LogLevel::kError, spawned.error().message);
                   code = 1;
                   loop.Stop();
                 }
                 for (const int signal : early) {
                   pass_on(signal);
                 }
               });
  loop.Run();
  runner.FlushOutput(std::chrono::seconds(1));
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ddprun;
  if (argc < 3) {
    std::cerr << "usage: fake_launch WORKERS PROGRAM [ARGS]\n";
    return 2;
  }
  const auto command =
      FindCommand({.program = argv[2], .args = {argv + 3, argv + argc}}, GetProcessEnv);
  if (!command) {
    std::cerr << "fake_launch: " << command.error().message << "\n";
    return 2;
  }
  const auto workers = static_cast<std::uint32_t>(std::atoi(argv[1]));
  return RunGuarded([&](GuardLink link) { return RunAgent(std::move(link), workers, *command); });
}

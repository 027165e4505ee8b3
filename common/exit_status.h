// How a process ended: an exit code, or a death by signal. Never a number that could be either.
//
// Only the value and its words, and what a signal is for. Native wait statuses are read elsewhere.
#pragma once

#include <string>
#include <variant>

namespace ddprun {

struct Exited {
  int code = 0;
  bool operator==(const Exited&) const = default;
};

struct Killed {
  int signal = 0;
  bool core_dumped = false;
  bool operator==(const Killed&) const = default;
};

using ExitStatus = std::variant<Exited, Killed>;

// Ended with exit code 0.
bool Succeeded(const ExitStatus& status);

// "exit code 3", "killed by signal 9 (SIGKILL)", "killed by signal 11 (SIGSEGV, core dumped)".
std::string Describe(const ExitStatus& status);

// The exit code that a shell makes of it: the code, or 128 + signal.
int ShellCode(const ExitStatus& status);

// "SIGKILL"; "signal 77" for a number without a name.
std::string SignalName(int signal);

// Of a launch. SIGUSR1 and SIGUSR2 are for the workers, SIGWINCH for their terminals; they end
// nothing.
bool AsksForTheEnd(int signal);

}  // namespace ddprun

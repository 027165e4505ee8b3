// Decides which hosts of a run are started when, which one hosts the rendezvous, what a signal
// means and with which exit code the launch ends. Pure: no processes, no clock.
//
//   state    | place free | greets  | exit code | connection gone | signal to stop | limit over
//   ---------|------------|---------|-----------|-----------------|----------------|-----------
//   Waiting  | Starting   | -       | -         | -               | Failed         | -
//   Starting | -          | Ready   | -         | Failed          | Failed         | Failed
//   Ready    | -          | -       | -         | Failed          | Failed         | -
//   Running  | -          | -       | Ended     | Failed (lost)   | passed on      | -
//   Failed   | -          | -       | -         | -               | no further try | Waiting
//   Ended    | -          | -       | -         | -               | -              | -
//
// A host that is Ready gets its order, and is Running, once the first host is known.
// A host that is Starting may ask for files that it lacks (--copy); the connections of those that
// are Starting or Ready are dropped at a signal to stop.
//
// At most kAtOnce hosts are Starting. The first host in the user's order that is not Failed becomes
// the first host: it hosts the rendezvous, and all others get its name with their orders. It stays
// the first host when it is lost later.
//
// A host that was never reached counts as missing. With fewer than MIN others the launch ends with
// 69; otherwise the host is tried again, after 2, 4, 8, ... 60 s, and so is one that is lost. The
// run is over when no host runs, or is about to, for the first time; or when a host that ends says
// so. A host that began just then may look for the run in vain. Where only the first host can host
// the rendezvous its end is the run's. So is the failure of a host, which lacks the program
// perhaps, if fewer than MIN others are left. The others have kEndGrace to follow, and longer while
// their output still comes (kOutputLimit), then SIGTERM and kEndGrace more, and then they are
// dropped. After a signal that stops they have what workers have (stop_limit), after a second one
// kEndGrace.
//
// A host's exit code comes behind its output. After a signal that stops, output whose reader stands
// still is left out, so that the exit code is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/log.h"
#include "common/time.h"

namespace ddprun {

struct HostsConfig {
  std::vector<std::string> names;
  std::vector<std::string> copies;  // Files that hosts may lack, for messages.
  std::uint32_t min_nodes = 1;
  bool finds_first = false;  // The first host hosts the rendezvous. False: the user has said where.
  bool first_ends_run = false;  // And no other host can take it over.
  Duration stop_limit{40'000};
  static constexpr std::size_t kAtOnce = 64;
  static constexpr Duration kSlowGreeting{5'000};  // Then a line names who is waited for.
  static constexpr Duration kGreetingLimit{60'000};
  static constexpr Duration kCopyLimit{600'000};  // For the greeting, after a file was asked for.
  static constexpr Duration kEndGrace{5'000};
  static constexpr Duration kOutputLimit{300'000};  // For what hosts have not printed by then.
  static constexpr Duration kReaderLimit{2'000};    // After a signal that stops.
  static constexpr Duration kFirstRetry{2'000};
  static constexpr Duration kLongestRetry{60'000};
};

enum class HostPhase { kWaiting, kStarting, kReady, kRunning, kEnded, kFailed };

struct HostState {
  HostPhase phase = HostPhase::kWaiting;
  bool reached = false;          // Was Running once.
  std::uint32_t failures = 0;    // In a row.
  std::optional<Time> deadline;  // Of kStarting: for the greeting. Of kFailed: the next try.
  std::optional<Time> slow;      // Of kStarting: when that is said, unless it was.
  Duration limit{0};             // Of kStarting: how long that is after the last sign of the host.
};

struct HostsState {
  std::vector<HostState> hosts;
  std::optional<std::size_t> first;
  std::optional<int> stop_signal;
  std::optional<int> run_code;   // Of the host whose end was the run's.
  std::optional<int> last_code;  // Of the host that ended last.
  std::optional<Time> end_by;    // The run ends; hosts that run may do so until then.
  Time over_since;               // Since that began.
  std::optional<Time> look_at;   // The launcher's output, after a signal that stops.
  bool terminated = false;       // They got a signal that stops.
  bool over = false;
};

// ---- Events ----
struct LaunchBegins {};
struct HostLacks {
  std::size_t host;
  std::size_t file;  // Of `copies`; any number.
};
struct HostGreets {
  std::size_t host;
};
struct HostEnds {
  std::size_t host;
  int code;
  bool run_ended = false;  // It has said so: the run, and not its own part alone.
};
struct HostGone {  // The connection to it has ended.
  std::size_t host;
  std::string why;
};
struct LaunchSignal {
  int number;
  bool stops;
};
struct HostsTick {
  bool output_waits = false;   // For a reader of the launcher's own output.
  bool output_stands = false;  // It has taken nothing for kReaderLimit.
  bool output_comes = false;   // Some came from a host since the event before this one.
};
using HostsEvent =
    std::variant<LaunchBegins, HostLacks, HostGreets, HostEnds, HostGone, LaunchSignal, HostsTick>;

// ---- Effects, to be carried out in this order ----
struct HostsEffects {
  std::vector<std::pair<LogLevel, std::string>> lines;
  std::vector<std::size_t> dropped;  // Their connections end; nothing more is told of them.
  std::vector<std::size_t> started;
  std::vector<std::pair<std::size_t, std::size_t>> sent;  // Host and file.
  std::vector<std::size_t> ordered;
  std::vector<std::pair<std::size_t, int>> signals;
  bool leaves_output = false;    // That has no reader.
  std::optional<int> exit_code;  // The launch is over.
};

HostsEffects Step(HostsState& state, const HostsConfig& config, const HostsEvent& event, Time now);
std::optional<Time> NextWake(const HostsState& state);

}  // namespace ddprun

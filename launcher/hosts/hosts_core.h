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
  // The hosts in the order in which they are tried: the first that can be reached hosts the
  // rendezvous.
  std::vector<std::string> names;
  // The files of --copy, in messages; a number beyond it is ignored.
  std::vector<std::string> copies;
  // The fewest hosts with which the run can continue: if fewer can be reached the launch ends with
  // 69, so too many end it at one lost host.
  std::uint32_t min_nodes = 1;
  // The first host hosts the rendezvous, so none starts before it answers; false: the user has said
  // where the rendezvous is.
  bool finds_first = false;
  // The first host's end is the run's: if wrongly true, the others are ended although they could
  // continue.
  bool first_ends_run = false;
  // From a signal that stops until hosts that still run are dropped: too short cuts off workers
  // that save.
  Duration stop_limit{40'000};
  // Hosts that are being started at once: too many overload the launching machine, one makes large
  // launches slow.
  static constexpr std::size_t kAtOnce = 64;
  // After it a line names the hosts that are waited for: too short and it comes at every launch.
  static constexpr Duration kSlowGreeting{5'000};
  // For ddprun to answer on a host: too short drops slow hosts, too long delays the next try.
  static constexpr Duration kGreetingLimit{60'000};
  // For the same, after a file was asked for: too short drops a host over a slow network.
  static constexpr Duration kCopyLimit{600'000};
  // For hosts to follow the run's end, before SIGTERM and again after it: too short loses their
  // last output.
  static constexpr Duration kEndGrace{5'000};
  // For output that hosts have not printed by the run's end: too short loses it, too long waits for
  // a host that prints for ever.
  static constexpr Duration kOutputLimit{300'000};
  // For the launcher's reader to take output after a signal that stops: too short loses output, too
  // long delays the exit.
  static constexpr Duration kReaderLimit{2'000};
  // The pause before a failed host is tried again, doubled each time: too short floods a host that
  // refuses.
  static constexpr Duration kFirstRetry{2'000};
  // The longest such pause: too long finds a host late that is back.
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

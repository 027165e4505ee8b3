// The messages of daemons, launches and the server of a pool to each other. Values; nothing is
// decided here.
//
// A daemon offers its machine, and a launch requests machines. Each keeps a stream open. A
// message on it says everything that its sender has to say now, so the newest one counts, and lost
// or repeated messages change nothing. The server answers with an order, or with a view of the run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "common/time.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {

// ---- Limits ----
// A client repeats itself this often, and is gone after such a silence.
inline constexpr Duration kPoolPeriod{2'500};
inline constexpr Duration kPoolSilence{10'000};
inline constexpr std::size_t kMostDaemons = 1'000;
inline constexpr std::size_t kMostPoolRequests = 256;  // Runs that wait or train, as of a server.
inline constexpr std::size_t kMaxWork = 256 << 10;     // Bytes of a run's directory and arguments.
inline constexpr std::size_t kMostWorkArgs = 4'096;    // Arguments of a run.
inline constexpr std::size_t kMostPastRuns = 16;       // Whose ends the server remembers.
inline constexpr std::size_t kMostSignals = 16;     // Of a run: those after them are not passed on.
inline constexpr std::size_t kMostEndedParts = 16;  // That a daemon remembers.
inline constexpr std::size_t kMostSaidLines = 32;   // The newest lines of ddprun on one host.
inline constexpr std::size_t kMaxSaidLine = 8 << 10;  // Bytes of one such line: a failure's report.
inline constexpr std::size_t kMaxSaidBytes = 32 << 10;  // Bytes of all such lines.

inline constexpr std::size_t kMaxPoolFacts = 128;
inline constexpr std::size_t kMaxPoolState = 512;

// ---- Of a daemon ----
// A line of ddprun on a host.
struct SaidLine {
  std::uint64_t number = 0;  // Counted up by the daemon.
  std::uint32_t level = 1;   // LogLevel
  std::string text;
  bool operator==(const SaidLine&) const = default;
};

inline constexpr std::uint32_t kErrorLevel = 3;  // LogLevel::kError

// Of one line: not a failure's report. nullptr: none.
inline const SaidLine* FirstError(const std::vector<SaidLine>& said) {
  const auto why = std::ranges::find_if(said, [](const SaidLine& line) {
    return line.level == kErrorLevel && line.text.find('\n') == std::string::npos;
  });
  return why == said.end() ? nullptr : &*why;
}

// A part is one node of a run, on one daemon. No number is given twice.
struct EndedPart {
  RunId run_id;
  std::uint64_t part = 0;
  std::optional<int> exit_code;  // None: an earlier daemon had started it, so it is not known.
  bool operator==(const EndedPart&) const = default;
};

inline std::size_t SaidBytes(const std::vector<SaidLine>& said) {
  std::size_t bytes = 0;
  for (const SaidLine& line : said) {
    bytes += line.text.size();
  }
  return bytes;
}

struct PoolOffer {
  std::string name;  // Of the daemon, and of its nodes.
  Incarnation incarnation;
  std::string facts;  // "8 GPUs, 96 CPUs"
  std::string unfit;  // Why no run may have it; empty: one may.
  bool drained = false;
  RunId run_id;  // Whose processes are there; empty: none.
  std::uint64_t part = 0;
  bool detached = false;  // Of that run.
  std::vector<EndedPart> ended;
  std::vector<SaidLine> said;
  std::uint64_t said_part = 0;  // Of which part.
  bool operator==(const PoolOffer&) const = default;
};

// For a daemon. A part that it does not know is started, once.
struct PoolOrder {
  RunId run_id;  // Empty: nothing.
  std::uint64_t part = 0;
  std::string directory;
  std::vector<std::string> args;
  std::string signals;  // A byte for each that the launch has got so far.
  bool detached = false;
  bool end = false;  // Whatever is there of this part is to end now.
  bool drained = false;
  bool operator==(const PoolOrder&) const = default;
};

// ---- Of a launch ----
struct PoolRequest {
  RunId run_id;
  Incarnation incarnation;
  std::uint64_t ticket = 0;  // Its place in the queue, as the server has said; 0: not yet.
  bool placed = false;       // As the server has said.
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::string directory;
  std::vector<std::string> args;
  std::string signals;    // That it has got; while it waits, it leaves the queue by one.
  bool detached = false;  // The run continues without its launch.
  bool operator==(const PoolRequest&) const = default;
};

inline std::size_t WorkBytes(const std::string& directory, const std::vector<std::string>& args) {
  std::size_t bytes = directory.size();
  for (const std::string& arg : args) {
    bytes += arg.size() + 1;
  }
  return bytes;
}

struct PoolPart {
  std::string name;  // The daemon.
  bool ended = false;
  std::vector<SaidLine> said = {};
  bool operator==(const PoolPart&) const = default;
};

struct PoolView {
  std::uint64_t ticket = 0;
  bool placed = false;
  std::uint32_t place = 0;  // In the queue; 1 is next.
  std::string waits = {};   // For what, in words.
  std::vector<PoolPart> parts = {};
  bool over = false;
  std::optional<int> exit_code = {};  // Of the run; none: no daemon knows it.
  bool operator==(const PoolView&) const = default;
};

// ---- For people ----
struct PoolMember {
  std::string name;
  std::string facts;
  std::string state;
  bool operator==(const PoolMember&) const = default;
};
enum class PoolRunPhase { kWaits = 1, kRuns, kEnds, kOver };
struct PoolQueued {
  RunId run_id;
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  PoolRunPhase phase = PoolRunPhase::kWaits;
  std::string state;  // The same in words, with all that is known.
  bool operator==(const PoolQueued&) const = default;
};
struct PoolStatus {
  std::vector<PoolMember> members;
  std::vector<PoolQueued> runs;
  bool operator==(const PoolStatus&) const = default;
};

struct PoolQuestion {
  bool operator==(const PoolQuestion&) const = default;
};
using PoolReport = std::variant<PoolQuestion, PoolOffer, PoolRequest>;
using PoolReply = std::variant<PoolStatus, PoolOrder, PoolView>;

}  // namespace ddprun

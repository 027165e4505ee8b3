// The run, as every node's command line states it: the first report fixes it.
//
// A field is its line in RunSpec and its row in kSpecFields. Wire, comparison of nodes and flags
// go by the rows. A new field also needs its number in proto/rendezvous.proto, its row in
// launcher/command_line/raw_flags.cc, and what it means. Never anything that nodes may differ in. A
// value out of its range ends a launch with exit code 2; a server refuses a report that has one
// (admission.h).
#pragma once

#include <cstdint>
#include <tuple>

#include "common/time.h"
#include "rendezvous/messages/fields.h"

namespace ddprun {

// The consequence of a hang (--on-hang).
inline constexpr std::uint32_t kHangRestarts = 0;    // As after a failure: uses a restart.
inline constexpr std::uint32_t kHangFails = 1;       // The run ends, whatever the budget.
inline constexpr std::uint32_t kHangIsReported = 2;  // Only reported: the run continues.

struct RunSpec {
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::uint32_t max_restarts = 0;      // Incidents of worker failure, for the whole run.
  Duration last_call{5'000};           // How long a world below max_nodes waits for more.
  Duration join_timeout{600'000};      // How long Gathering may last.
  bool scale_up = true;                // A later node makes a running world below max grow.
  Duration restart_window{0};          // Only incidents this young count; 0: all of the run.
  std::uint32_t crash_loop_limit = 3;  // Incidents in a row without progress; 0: no limit.
  Duration restart_backoff{16'000};    // Longest spacing of restarts without progress; 0: none.
  Duration fence_after{0};  // A node cut off for so long kills its workers itself, so no node takes
                            // a lost one's place earlier; 0: never.
  Duration shutdown_timeout{30'000};  // TERM to KILL in a planned stop.
  std::uint32_t on_hang = kHangRestarts;
  auto operator<=>(const RunSpec&) const = default;
};

// How a node is treated whose value differs from that of the run's first node.
enum class Mismatch {
  kUseFirst,        // It joins, and the first node's value counts.
  kRefuse,          // It is refused, and the message names both values: not of a switch.
  kRefuseWhereSet,  // It is refused too, but a message leaves a default out: of rare flags.
};

template <class T>
struct SpecField {
  constexpr SpecField(const char* field, T RunSpec::*of, Mismatch kind = Mismatch::kUseFirst)
      : name(field), member(of), mismatch(kind) {}

  const char* name;  // On the wire, where _ms follows a duration's; its flag has '-' for '_'.
  T RunSpec::*member;
  Mismatch mismatch;
};

inline constexpr std::tuple kSpecFields{
    SpecField{"min_nodes", &RunSpec::min_nodes, Mismatch::kRefuse},
    SpecField{"max_nodes", &RunSpec::max_nodes, Mismatch::kRefuse},
    SpecField{"max_restarts", &RunSpec::max_restarts, Mismatch::kRefuse},
    SpecField{"last_call", &RunSpec::last_call},
    SpecField{"join_timeout", &RunSpec::join_timeout},
    SpecField{"scale_up", &RunSpec::scale_up},
    SpecField{"restart_window", &RunSpec::restart_window},
    SpecField{"crash_loop_limit", &RunSpec::crash_loop_limit},
    SpecField{"restart_backoff", &RunSpec::restart_backoff},
    SpecField{"fence_after", &RunSpec::fence_after, Mismatch::kRefuseWhereSet},
    SpecField{"shutdown_timeout", &RunSpec::shutdown_timeout, Mismatch::kRefuseWhereSet},
    SpecField{"on_hang", &RunSpec::on_hang},
};
static_assert(IsWhole<RunSpec>(kSpecFields));

}  // namespace ddprun

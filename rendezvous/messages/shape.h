// The run, as every node's command line states it: the first report fixes it.
//
// A field is its line in RunShape and its row in kShapeFields. Wire, comparison of nodes and flags
// go by the rows; what is left to do is its number in proto/rendezvous.proto, its row in
// launcher/command_line/raw_flags.cc, and what it means. Never anything that nodes may differ in.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "common/time.h"
#include "rendezvous/messages/fields.h"

namespace ddprun {

// What follows from a hang (--on-hang).
inline constexpr std::uint32_t kHangRestarts = 0;  // As from a failure: charged.
inline constexpr std::uint32_t kHangFails = 1;     // The run is over, whatever the budget.
inline constexpr std::uint32_t kHangIsTold = 2;    // Nothing: the run goes on.

struct RunShape {
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::uint32_t max_restarts = 0;      // Incidents of worker failure, for the whole run.
  Duration last_call{5'000};           // How long a world below max_nodes waits for more.
  Duration join_timeout{600'000};      // How long Gathering may last.
  bool scale_up = true;                // A later node makes a running world below max grow.
  Duration restart_window{0};          // Only incidents this young count; 0: all of the run.
  std::uint32_t crash_loop_limit = 3;  // Incidents in a row without progress; 0: no limit.
  Duration restart_backoff{16'000};    // Longest spacing of restarts without progress; 0: none.
  Duration fence_after{0};             // A node cut off for so long kills its workers itself, so
                                       // nobody takes a lost one's place earlier; 0: never.
  Duration shutdown_timeout{30'000};   // TERM to KILL in a planned stop.
  std::uint32_t on_hang = kHangRestarts;
  auto operator<=>(const RunShape&) const = default;
};

// What becomes of a node that says otherwise than the run's first, whose word counts.
enum class Differing {
  kOverruled,
  kRefused,          // It is told both words of these,
  kRefusedWhereSet,  // and of these those that are not the default.
};

template <class T>
struct ShapeField {
  constexpr ShapeField(const char* field, T RunShape::*of, Differing kind = Differing::kOverruled,
                       std::string_view value_words = {})
      : name(field), member(of), differing(kind), words(value_words) {}

  const char* name;  // On the wire, where _ms follows a duration's; its flag has '-' for '_'.
  T RunShape::*member;
  Differing differing;
  std::string_view words;  // Of a flag that takes words, for 0 (false) and up: "never|restart".
};

// Who is refused is told both words: 0 and 1 are none of a switch.
template <class... T>
constexpr bool CanBeTold(const std::tuple<ShapeField<T>...>& table) {
  bool can = true;
  ForEach(table, [&]<class Of>(const ShapeField<Of>& field) {
    can &= !std::is_same_v<Of, bool> || field.differing == Differing::kOverruled ||
           field.words.find('|') != std::string_view::npos;
  });
  return can;
}

inline constexpr std::tuple kShapeFields{
    ShapeField{"min_nodes", &RunShape::min_nodes, Differing::kRefused},
    ShapeField{"max_nodes", &RunShape::max_nodes, Differing::kRefused},
    ShapeField{"max_restarts", &RunShape::max_restarts, Differing::kRefused},
    ShapeField{"last_call", &RunShape::last_call},
    ShapeField{"join_timeout", &RunShape::join_timeout},
    ShapeField{"scale_up", &RunShape::scale_up},
    ShapeField{"restart_window", &RunShape::restart_window},
    ShapeField{"crash_loop_limit", &RunShape::crash_loop_limit},
    ShapeField{"restart_backoff", &RunShape::restart_backoff},
    ShapeField{"fence_after", &RunShape::fence_after, Differing::kRefusedWhereSet},
    ShapeField{"shutdown_timeout", &RunShape::shutdown_timeout, Differing::kRefusedWhereSet},
    ShapeField{"on_hang", &RunShape::on_hang},
};
static_assert(IsWhole<RunShape>(kShapeFields));
static_assert(CanBeTold(kShapeFields));

}  // namespace ddprun

// A directive in words, for traces.
#pragma once

#include <string>
#include <variant>

#include "common/overload.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {

inline std::string Describe(const Directive& directive) {
  const auto generation = [](Generation g) { return "generation " + std::to_string(g.value); };
  return std::visit(
      Overload{
          [](const Wait& wait) { return "wait: " + Describe(wait.reason); },
          [&](const Run& run) {
            const Placement& p = run.placement;
            return "run " + generation(p.generation) + " as ranks " + std::to_string(p.first_rank) +
                   "+ of " + std::to_string(p.world_size) + ", group rank " +
                   std::to_string(p.group_rank) + " of " + std::to_string(p.group_size) +
                   ", store at " + ToString(p.store);
          },
          [&](const Stop& stop) {
            return "stop " + generation(stop.generation) + ": " + Describe(stop.cause);
          },
          [](const Finish& finish) {
            return "finish with exit code " + std::to_string(finish.exit_code) + ": " + finish.text;
          },
      },
      directive);
}

}  // namespace ddprun

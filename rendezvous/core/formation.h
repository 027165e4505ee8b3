// Decides which of the ready nodes form the next world, in which order, with which ranks.
//
// Pure arithmetic on values; never decides *when* a world forms.
#pragma once

#include <compare>
#include <string_view>
#include <vector>

#include "rendezvous/core/roster.h"

namespace ddprun {

// "n9" before "n10": runs of digits compare as numbers.
std::strong_ordering CompareNatural(std::string_view a, std::string_view b);

// At most max_nodes of the ready nodes (roster.h says which count). Members of the last world
// first, where something must be left out. Order: explicit node rank; else the last world's nodes
// keep their places and newcomers take the lost ones' places; else host name, then order of
// joining.
std::vector<NodeKey> ChooseMembers(const Roster& roster);

// Contiguous ranks per node in the given order; the store is group rank 0's offered port. Its
// generation is the one after `newest`.
World MakeWorld(const Roster& roster, const CoordinatorConfig& config, Generation newest,
                const std::vector<NodeKey>& chosen, Time now);

}  // namespace ddprun

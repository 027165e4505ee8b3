// Decides which of the ready nodes form the next world, in which order, with which ranks.
//
// Pure arithmetic on values; never decides *when* a world forms.
#pragma once

#include <compare>
#include <string_view>
#include <vector>

#include "rendezvous/core/coordinator.h"

namespace ddprun {

// "n9" before "n10": runs of digits compare as numbers.
std::strong_ordering CompareNatural(std::string_view a, std::string_view b);

// At most max_nodes of the ready nodes (node_index.h says which count). Members of the last world
// first, where something must be left out. Order: explicit node rank; else the last world's nodes
// keep their places and newcomers take the lost ones' places; else host name, then order of
// joining.
std::vector<NodeKey> ChooseMembers(const CoordinatorState& state);

// Contiguous ranks per node in the given order; the store is group rank 0's offered port.
World MakeWorld(const CoordinatorState& state, const CoordinatorConfig& config,
                const std::vector<NodeKey>& chosen, Time now);

// What Run tells the node of this group rank.
Placement PlacementOf(const CoordinatorState& state, const World& world, std::size_t group_rank);

}  // namespace ddprun

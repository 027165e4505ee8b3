// The only place where the coordinator's values become words. Pure.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/core/coordinator.h"

namespace ddprun {

std::string Describe(const WorkerFailure& failure);

// "waiting for 1 more node (3 of 4 are here; missing n03); giving up in 9 min 58 s"
std::string Describe(const WaitReason& reason);

std::string Describe(const Directive& directive);

std::string Describe(StopCause cause);

std::string Describe(Phase phase);

// "generation 4: 4 nodes, 16 workers: n0 n1 n2 n3"
std::string Describe(const World& world);

// The whole state, for people: one line on the run, one per node.
std::vector<std::string> Describe(const CoordinatorState& state, const CoordinatorConfig& config,
                                  Time now);

}  // namespace ddprun

// Decides, once a world is drained, what ended it and what follows: the root cause, whether the
// restart budget is charged, and the outcome of a run that goes on no further.
//
// Pure. Judged at the end and not at the first bad news, since a dead node's peers fail first.
#pragma once

#include <optional>

#include "rendezvous/core/coordinator.h"

namespace ddprun {

struct Judgement {
  bool charged = false;               // One restart of the budget.
  std::optional<Finish> outcome;      // The run ends with it; else the next world gathers.
  std::optional<WorkerFailure> root;  // What ended the world, if a worker did.
};

// The first failure that is not collateral, by time; a death by signal within a second of it beats
// it, since peers of a killed worker often end first. One exception: who aborts after a worker of
// its own node had recorded an error most often does so because of that one. All collateral: the
// first of all.
std::optional<WorkerFailure> RootCause(const std::vector<Evidence>& evidence);

Judgement Judge(const Drain& drain, std::uint32_t restarts_used, std::uint32_t max_restarts);

}  // namespace ddprun

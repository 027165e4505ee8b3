// The backend of the ranks' collectives, as --backend names it.
#pragma once

#include <optional>
#include <string_view>

#include "common/text.h"

namespace ddprun {

enum class BackendChoice {
  // Between GPUs NCCL; between CPUs shared memory where all ranks are workers of one node and prove
  // that they share it, else Gloo.
  kAuto,
  kGloo,
  kShm,   // Shared memory, or an error.
  kNccl,  // NCCL between GPUs, or an error.
};

inline std::optional<BackendChoice> ParseBackend(std::string_view text) {
  return MeaningOf<BackendChoice>(text, {{"auto", BackendChoice::kAuto},
                                         {"gloo", BackendChoice::kGloo},
                                         {"shm", BackendChoice::kShm},
                                         {"nccl", BackendChoice::kNccl}});
}

}  // namespace ddprun

// The start of a training: rank 0's decision, sent to every rank.
//
// It decides by itself, so that no two ranks can decide differently. The plan carries no tensors:
// those travel from rank 0 to the others by themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/snapshot.h"
#include "trainer/options/config.h"

namespace ddprun {

enum class StartKind {
  kFresh,
  kResume,
  kFromMemory,
  kFinished,  // Nothing is left to do; the plan's state holds the result.
};

struct StartPlan {
  StartKind kind = StartKind::kFresh;
  std::optional<Error> refusal;    // Every rank ends with it.
  TrainState state;                // Where to continue; a fresh start is a state too.
  std::uint32_t state_from = 0;    // The rank whose learner has the state.
  std::vector<std::string> notes;  // For the log: warnings, and what was adapted.
};

std::string ToText(const StartPlan& plan);
Result<StartPlan> StartPlanFromText(std::string_view text);

// The training that the command line asks for, before its first step.
TrainState FreshState(const TrainConfig& config, std::uint32_t world_size,
                      const std::string& model_description);

// How `asked` (a fresh state) continues from a checkpoint: an error where that is another training
// (data, seed); otherwise the state to start with and, in `notes`, the adaptations. The global
// batch stays what it was, whatever the world size, unless --batch was changed.
Result<TrainState> ContinueFrom(const TrainState& saved, const TrainState& asked,
                                std::vector<std::string>& notes);

// The newest state that ranks have in memory.
struct Remembered {
  TrainState state;
  std::uint32_t rank = 0;  // That has it.
};

struct ChosenStart {
  StartPlan plan;
  std::optional<Snapshot> loaded;           // To copy the tensors from, where it is a checkpoint.
  std::optional<std::uint64_t> last_saved;  // The step of the newest checkpoint.
};

// Where the training that is `asked` for continues: from the state in memory where that counts,
// else from the newest checkpoint. The store is claimed: no other process moves what is found
// there.
Result<ChosenStart> ChooseStart(const TrainConfig& config, CheckpointStore& store,
                                const TrainState& asked,
                                const std::optional<Remembered>& remembered);

}  // namespace ddprun

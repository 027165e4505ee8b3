// How a training goes on from memory, and what it leaves there for the next world.
#include <chrono>
#include <utility>

#include "trainer/trainer.h"

namespace ddprun {

Result<void> Trainer::LookInMemory(const std::shared_ptr<Choice>& choice) {
  if (!config_.GoesOnFromMemory()) {
    return {};
  }
  memory_ = std::make_unique<MemorySnapshots>(env_);
  RETURN_IF_ERROR(WaitForDiskTogether({.what = "the state in memory is being read",
                                       .work =
                                           [this, choice] {
                                             choice->found = memory_->Find();
                                             return Result<void>();
                                           },
                                       .on_disk = false}));
  std::vector<double> ages(kAgeNumbers * env_.world_size);
  if (choice->found) {
    PutAge(choice->found->state,
           std::span<double, kAgeNumbers>(ages.data() + kAgeNumbers * env_.rank, kAgeNumbers));
  }
  RETURN_IF_ERROR(group_->Sum(ages));
  const std::optional<std::uint32_t> newest = NewestOf(ages);
  if (!newest) {
    return {};
  }
  std::string text;
  if (newest == env_.rank) {
    text = ToJson(StateFile{choice->found->state, {}});
  }
  ASSIGN_OR_RETURN(text, group_->BroadcastText(std::move(text), *newest));
  ASSIGN_OR_RETURN(StateFile file, StateFileFromJson(text, "the newest state in memory"));
  choice->remembered = Remembered{std::move(file.state), *newest};
  return {};
}

bool Trainer::MayRemember() const {
  return memory_ && memory_->Ready(std::chrono::steady_clock::now()) &&
         (!checkpointing_ || checkpointing_->MayRemember(state_.step));
}

// Only rank 0's buffers count, so that what others have is not the state.
void Trainer::Remember() {
  if (IsRankZero() || !learner_->HasBuffers()) {
    const NamedRange range("checkpoint");
    memory_->Begin(learner_->View(), StateNow());
  }
}

void Trainer::WaitForCopies() const {
  if (checkpointing_) {
    checkpointing_->WaitForCopy();
  }
  if (memory_) {
    memory_->WaitForCopy();
  }
}

}  // namespace ddprun

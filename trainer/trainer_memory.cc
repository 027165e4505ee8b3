// How a training goes on from memory, and what it leaves there for the next world.
#include <algorithm>
#include <chrono>
#include <utility>

#include "trainer/learning/early_stopping.h"
#include "trainer/trainer.h"

namespace ddprun {

// Gigabytes are read in memory, and the newest record from rank 0's disk.
Result<void> Trainer::LookForState(const std::shared_ptr<Choice>& choice) {
  if (!config_.GoesOnFromMemory()) {
    return {};
  }
  memory_ = std::make_unique<MemorySnapshots>(env_);
  return WaitForDiskTogether({.what = "the state in memory and the newest record in '" +
                                      config_.checkpoint_dir.native() + "' are being read",
                              .work = [this, choice] {
                                choice->found = memory_->Find();
                                if (IsRankZero()) {
                                  checkpointing_->Look();
                                  choice->refuse = RunFiles::StopAsked(config_.checkpoint_dir) ||
                                                   !PrepareOutputs();
                                }
                                return Result<void>();
                              }});
}

Result<std::optional<StartPlan>> Trainer::AgreeOnMemory(Choice& choice) {
  if (!memory_) {
    return std::optional<StartPlan>();
  }
  std::vector<double> ages(kAgeNumbers * env_.world_size);
  const std::span<double, kAgeNumbers> mine(ages.data() + kAgeNumbers * env_.rank, kAgeNumbers);
  if (choice.found) {
    PutAge(choice.found->snapshot.state, mine);
  }
  RETURN_IF_ERROR(group_->Sum(ages));
  const std::optional<NewestState> newest = NewestOf(ages);
  if (!newest) {
    return std::optional<StartPlan>();
  }
  const auto its = std::span(ages).subspan(kAgeNumbers * newest->holder, kAgeNumbers);
  std::string text;
  if (newest->holder == env_.rank) {
    text = ToText(BlockHeading{choice.found->facts, choice.found->snapshot.state});
  }
  if (newest->holder != 0) {
    ASSIGN_OR_RETURN(text, group_->BroadcastText(std::move(text), newest->holder));
  }
  if (IsRankZero()) {
    ASSIGN_OR_RETURN(text, ChooseMemory(*newest, text, choice));
  }
  ASSIGN_OR_RETURN(text, group_->BroadcastText(std::move(text)));
  if (text.empty()) {
    return std::optional<StartPlan>();
  }
  ASSIGN_OR_RETURN(StartPlan plan, StartPlanFromText(text));
  if (!plan.refusal && std::ranges::equal(mine, its)) {
    memory_->CountStart();
  }
  if (!plan.refusal && newest->holder == env_.rank) {
    RETURN_IF_ERROR(learner_->CopyFrom(choice.found->snapshot));
  }
  state_from_ = newest->holder;
  return std::optional(std::move(plan));
}

// The plan's text; empty: this state does not count.
Result<std::string> Trainer::ChooseMemory(const NewestState& newest, const std::string& heading,
                                          Choice& choice) {
  const Result<BlockHeading> read = BlockHeadingFromText(heading);
  if (!read || choice.refuse) {  // The other way says why.
    return std::string();
  }
  std::optional<StartPlan> plan =
      checkpointing_->ChooseFromMemory(choice.asked, *read, choice.why_not_memory);
  if (!plan) {
    return std::string();
  }
  if (newest.copies < env_.group_world_size) {
    plan->notes.push_back("rank " + std::to_string(newest.holder) +
                          " sends this state to all: " + std::to_string(newest.copies) + " of " +
                          std::to_string(env_.group_world_size) + " nodes have it in memory");
  }
  if (const Result<void> opened = OpenRunFiles(*plan); !opened) {
    plan = StartPlan{.refusal = opened.error()};
  }
  return ToText(*plan);
}

bool Trainer::MayRemember() const {
  return memory_ && memory_->Ready(std::chrono::steady_clock::now()) &&
         (!checkpointing_ || checkpointing_->MayRemember(state_.step));
}

// Only rank 0's buffers count, so that what others have is not the state.
void Trainer::Remember(BlockFacts facts) {
  if (!IsRankZero() && learner_->HasBuffers()) {
    return;
  }
  const NamedRange range("checkpoint");
  TrainState state = StateNow();
  state.run_id = env_.run_id;
  state.term = env_.term;
  state.generation = env_.generation;
  state.world_id = env_.world_id;
  const auto best = state.metrics.find(kBestStep);
  if (config_.run.keep_best && best != state.metrics.end()) {
    facts.best = static_cast<std::uint64_t>(best->second);
  }
  memory_->Begin(learner_->View(), std::move(state), std::move(facts));
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

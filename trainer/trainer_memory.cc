// How a training goes on from memory, and what it leaves there for the next world.
#include <algorithm>
#include <chrono>
#include <utility>

#include "trainer/learning/early_stopping.h"
#include "trainer/trainer.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostAsked = 2;  // States that rank 0 judges; each may cost a broadcast.

const MemorySnapshot* Find(const std::vector<MemorySnapshot>& found, const MemoryKey& key) {
  const auto mine = std::find_if(found.begin(), found.end(),
                                 [&](const MemorySnapshot& one) { return KeyOf(one) == key; });
  return mine == found.end() ? nullptr : &*mine;
}

}  // namespace

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
  MemoryTable table(env_.rank, env_.world_size, choice.found);
  RETURN_IF_ERROR(group_->Sum(table.numbers()));
  std::vector<HeldState> states = table.States();
  states.resize(std::min(states.size(), kMostAsked));
  for (const HeldState& held : states) {
    const MemorySnapshot* const mine = Find(choice.found, held.key);
    std::string text;
    if (held.holder == env_.rank) {
      text = ToText(mine->facts, mine->snapshot.state);
    }
    if (held.holder != 0) {
      ASSIGN_OR_RETURN(text, group_->BroadcastText(std::move(text), held.holder));
    }
    if (IsRankZero()) {
      ASSIGN_OR_RETURN(text, ChooseMemory(held, text, choice));
    }
    ASSIGN_OR_RETURN(text, group_->BroadcastText(std::move(text)));
    if (text.empty()) {
      continue;
    }
    ASSIGN_OR_RETURN(StartPlan plan, StartPlanFromText(text));
    if (mine != nullptr && !plan.refusal) {
      memory_->CountStart(mine->sequence);
      RETURN_IF_ERROR(learner_->CopyFrom(mine->snapshot));
    }
    state_from_ = held.ranks == env_.world_size ? std::nullopt : std::optional(held.holder);
    return std::optional(std::move(plan));
  }
  return std::optional<StartPlan>();
}

// The plan's text; empty: this state does not count.
Result<std::string> Trainer::ChooseMemory(const HeldState& held, const std::string& heading,
                                          Choice& choice) {
  const Result<BlockHeading> read = BlockHeadingFromText(heading);
  if (!read || choice.refuse) {  // The other way says why.
    return std::string();
  }
  std::optional<StartPlan> plan = checkpointing_->ChooseFromMemory(
      choice.asked, read->state, read->facts, held.starts, choice.why_not_memory);
  if (!plan) {
    return std::string();
  }
  if (held.ranks < env_.world_size) {
    plan->notes.push_back("rank " + std::to_string(held.holder) +
                          " sends this state to all: " + std::to_string(held.ranks) + " of " +
                          std::to_string(env_.world_size) + " ranks have it in memory");
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
void Trainer::Remember(std::optional<std::uint64_t> handed_over, std::uint64_t unsaved_ms) {
  if (!IsRankZero() && learner_->HasBuffers()) {
    return;
  }
  const NamedRange range("checkpoint");
  TrainState state = StateNow();
  state.run_id = env_.run_id;
  state.term = env_.term;
  state.generation = env_.generation;
  state.world_id = env_.world_id;
  BlockFacts facts = memory_facts_;
  facts.handed_over = handed_over;
  facts.unsaved_ms = unsaved_ms;
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

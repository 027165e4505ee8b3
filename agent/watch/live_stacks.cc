#include "agent/watch/live_stacks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun {
namespace {

constexpr Duration kOfOne{10'000};
constexpr Duration kOfAll{40'000};
constexpr std::size_t kBesideEachOther = 8;  // StackTaker's.

std::int64_t StacksTime() {
  return std::chrono::floor<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Duration LimitOfOne(std::size_t targets) {
  const std::size_t rounds = (targets + kBesideEachOther - 1) / kBesideEachOther;
  return std::clamp(kOfAll / static_cast<long>(std::max<std::size_t>(rounds, 1)), Duration{1'000},
                    kOfOne);
}

// Memory: it never waits.
std::string TextOf(const std::shared_ptr<UniqueFd>& output, std::size_t most) {
  if (!output || !*output) {
    return "(no memory could be had for its stacks)\n";
  }
  std::string text(most, '\0');
  const ssize_t got = ::pread(output->get(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text.empty() ? "(nothing was found out in time)\n" : text;
}

}  // namespace

LiveStacks::LiveStacks(Loop& loop, std::string program)
    : loop_(loop), taker_(loop, std::move(program)) {}

std::uint64_t LiveStacks::Take(std::vector<Target> targets, Done done) {
  turns_.push_back({++last_turn_, std::move(targets), std::move(done)});
  if (turns_.size() == 1) {
    Begin();
  }
  return last_turn_;
}

void LiveStacks::GiveUp(std::uint64_t turn) {
  const auto found = std::ranges::find(turns_, turn, &Turn::number);
  if (found == turns_.end()) {
    return;
  }
  const bool under_way = found == turns_.begin();
  turns_.erase(found);
  if (under_way) {
    taker_.Forget();
    if (!turns_.empty()) {
      Begin();
    }
  }
}

void LiveStacks::Begin() {
  Turn& turn = turns_.front();
  std::vector<StackJob> jobs;
  for (Target& target : turn.targets) {
    StackJob& job = target.job;
    job.title = "rank " + std::to_string(target.rank) + " (pid " + std::to_string(job.pid) + ")";
    job.also.clear();
    job.live = true;
    if (job.file.empty()) {
      job.output = std::make_shared<UniqueFd>(::memfd_create("ddprun-stacks", MFD_CLOEXEC));
    }
    if (!job.output || *job.output) {
      jobs.push_back(job);
    }
  }
  taker_.Take(std::move(jobs), LimitOfOne(turn.targets.size()), [this](const auto&) {
    End();
    if (!turns_.empty()) {
      Begin();
    }
  });
}

void LiveStacks::End() {
  const Turn turn = std::move(turns_.front());
  turns_.pop_front();
  const std::size_t most =
      std::min(kMostOfOne, kMostOfAll / std::max<std::size_t>(turn.targets.size(), 1));
  std::vector<AnswerRecord> records;
  for (const Target& target : turn.targets) {
    records.push_back({StacksTime(), target.rank, target.generation, AnswerKind::kStack,
                       target.job.file.empty() ? TextOf(target.job.output, most) : ""});
  }
  loop_.Post([done = turn.done, records = std::move(records)] { done(records); });
}

void LiveStacks::Forget() {
  taker_.Forget();
  while (!turns_.empty()) {
    End();
  }
}

}  // namespace ddprun

#include "agent/watch/live_stacks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/wall_clock.h"

namespace ddprun {
namespace {

constexpr Duration kOfOne{10'000};
constexpr Duration kOfAll{40'000};
constexpr std::size_t kBesideEachOther = 8;  // StackTaker's.

Duration LimitOfOne(std::size_t targets) {
  const std::size_t rounds = (targets + kBesideEachOther - 1) / kBesideEachOther;
  return std::clamp(kOfAll / static_cast<long>(std::max<std::size_t>(rounds, 1)), Duration{1'000},
                    kOfOne);
}

// Memory: it never waits.
std::string TextOf(const std::shared_ptr<UniqueFd>& output, std::size_t most) {
  if (!output || !*output) {
    return "(no memory for its stacks)\n";
  }
  std::string text(most, '\0');
  const ssize_t got = ::pread(output->get(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text.empty() ? "(nothing was read in time)\n" : text;
}

}  // namespace

LiveStacks::LiveStacks(Loop& loop, std::string program)
    : loop_(loop), taker_(loop, std::move(program)) {}

std::uint64_t LiveStacks::Take(std::vector<Target> targets, Done done) {
  requests_.push_back({++last_number_, std::move(targets), std::move(done)});
  if (requests_.size() == 1) {
    Begin();
  }
  return last_number_;
}

void LiveStacks::GiveUp(std::uint64_t number) {
  const auto found = std::ranges::find(requests_, number, &Request::number);
  if (found == requests_.end()) {
    return;
  }
  const bool under_way = found == requests_.begin();
  requests_.erase(found);
  if (under_way) {
    taker_.Forget();
    if (!requests_.empty()) {
      Begin();
    }
  }
}

void LiveStacks::Begin() {
  Request& request = requests_.front();
  std::vector<StackJob> jobs;
  for (Target& target : request.targets) {
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
  taker_.Take(std::move(jobs), LimitOfOne(request.targets.size()), [this](const auto&) {
    End();
    if (!requests_.empty()) {
      Begin();
    }
  });
}

void LiveStacks::End() {
  const Request request = std::move(requests_.front());
  requests_.pop_front();
  const std::size_t most =
      std::min(kMostOfOne, kMostOfAll / std::max<std::size_t>(request.targets.size(), 1));
  std::vector<AnswerRecord> records;
  for (const Target& target : request.targets) {
    records.push_back({UnixMilliseconds(), target.rank, target.generation, AnswerKind::kStack,
                       target.job.file.empty() ? TextOf(target.job.output, most) : ""});
  }
  loop_.Post([done = request.done, records = std::move(records)] { done(records); });
}

void LiveStacks::Forget() {
  taker_.Forget();
  while (!requests_.empty()) {
    End();
  }
}

}  // namespace ddprun

// Steps that workers write into memory (proto/step_page.h): looked at now and then, where a
// datagram would wake the agent for each of them.
//
// Any bytes may be there, and others a moment later: each number is taken once, and judged then.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "agent/watch/foreign_descriptor.h"
#include "common/result.h"
#include "proto/step_page.h"
#include "proto/worker_word.h"

namespace ddprun {

inline constexpr std::uint64_t kAllEntries = UINT64_MAX;

// Reads the entries of one page that are new since the last look.
class StepReader {
 public:
  // How many entries there are; nothing: no new ones.
  std::optional<std::uint64_t> News(StepPage& page) const;

  // Of the first `most` entries those that were not taken yet, as one word: the highest step, where
  // it is higher than before, and the least that one took: where the worker does not say it the
  // time from one to the next, since for the agent they all come at once.
  std::optional<WorkerWord> Read(StepPage& page, std::uint64_t most);

 private:
  std::uint64_t seen_ = 0;
  std::optional<StepEntry> last_;     // The newest step read so far.
  std::optional<StepEntry> highest_;  // The first entry with the highest step.
};

// Of the workers of one generation, by local rank, one each.
class StepPages {
 public:
  // A page that takes another one's place gives what was still to be read of that. An error: why it
  // is refused.
  Result<std::optional<WorkerWord>> Take(std::uint32_t local_rank, const ForeignFd& file);

  bool empty() const { return pages_.empty(); }
  // As StepReader's; nothing where there is no page.
  std::optional<std::uint64_t> News(std::uint32_t local_rank) const;
  std::optional<WorkerWord> Read(std::uint32_t local_rank, std::uint64_t most);

  void Clear() { pages_.clear(); }

 private:
  struct Unmap {
    void operator()(StepPage* page) const;
  };
  using Mapped = std::unique_ptr<StepPage, Unmap>;
  struct Page {
    Mapped memory;
    StepReader reader;
  };
  static Result<Mapped> Map(int fd);

  std::map<std::uint32_t, Page> pages_;
};

}  // namespace ddprun

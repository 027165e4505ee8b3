// Whether a run that is looked at again and again still takes steps, and how long one usually
// takes.
//
// Pure: it is told what was seen, and when. What happened before it began to look it does not know,
// and does not say. A world's step is the lowest of its nodes: all must take part in the next one.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/time.h"
#include "rendezvous/core/status.h"

namespace ddprun {

class StepWatch {
 public:
  static constexpr std::size_t kRemembered = 30;  // Looks that saw another step.
  // Of the usual time, but 5 s at least: that long without a step is said.
  static constexpr int kLate = 10;

  void Look(const RunStatus& run, Time now);

  // "no step for 4 min 12 s (usual 0.8 s)", "0.8 s per step"; "": nothing is known.
  std::string Headline(Time now) const;
  // It is later than it should be.
  bool Late(Time now) const;

 private:
  struct Seen {
    std::uint64_t step = 0;
    Time when;
  };
  std::optional<Duration> Usual() const;

  Generation generation_;
  std::deque<Seen> seen_;  // The newest last; each with another step.
  std::optional<Time> began_;
  bool trains_ = false;
};

}  // namespace ddprun

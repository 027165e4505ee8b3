// One errand on this node: whoever has it asks for one piece after the other.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/messages/errand.h"

namespace ddprun {

struct JobPiece {
  std::string bytes;
  bool last = false;
  std::string refusal = {};
};

// Its end gives it up.
class ErrandJob {
 public:
  virtual ~ErrandJob() = default;
  // `done` comes once, on the loop, never from inside this call; not once the job is gone. The
  // piece has `most` bytes at most.
  virtual void Next(std::size_t most, std::function<void(JobPiece)> done) = 0;
};

using MakeErrandJob = std::function<std::unique_ptr<ErrandJob>(const ErrandWish&)>;

}  // namespace ddprun

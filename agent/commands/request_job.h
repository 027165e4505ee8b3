// One request on this node: its owner asks for one piece after the other.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/messages/operator_request.h"

namespace ddprun {

struct JobPiece {
  std::string bytes;
  bool last = false;
  std::string refusal = {};
};

// Its end gives it up.
class RequestJob {
 public:
  virtual ~RequestJob() = default;
  // `done` comes once, on the loop, never from inside this call; not once the job is gone. The
  // piece has `most` bytes at most.
  virtual void Next(std::size_t most, std::function<void(JobPiece)> done) = 0;
};

using MakeRequestJob = std::function<std::unique_ptr<RequestJob>(const RequestSpec&)>;

}  // namespace ddprun

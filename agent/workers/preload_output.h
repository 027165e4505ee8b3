// The output of preload processes while they load, read like a worker's: the newest one's.
#pragma once

#include <memory>

#include "agent/workers/warm_start.h"
#include "agent/workers/worker_output.h"
#include "common/asio_loop.h"

namespace ddprun {

class PreloadOutput {
 public:
  PreloadOutput(AsioLoop& loop, Consoles& consoles);
  ~PreloadOutput();
  PreloadOutput(const PreloadOutput&) = delete;
  PreloadOutput& operator=(const PreloadOutput&) = delete;

  // For any thread, and for longer than this lives.
  WarmStart::OnStarted Reader() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace ddprun

// The evidence that a node keeps of workers that failed, in the generation's bundle: their last
// lines and what the kernel knows of the machine. Written beside the run: a restart waits for
// none of it, the end of the run a second at most. Decides nothing; lives on the loop, and blocks
// nowhere.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "agent/watch/evidence_bundle.h"
#include "agent/watch/recorder_dump.h"
#include "common/lifetime.h"
#include "common/loop.h"

namespace ddprun {

class FailureEvidence {
 public:
  explicit FailureEvidence(Loop& loop);
  FailureEvidence(const FailureEvidence&) = delete;
  FailureEvidence& operator=(const FailureEvidence&) = delete;

  struct Recorder {
    std::uint32_t rank = 0;
    RecorderNames names;
  };

  // `held` is let go of once these have been read. A write that the disk refuses is logged once. Of
  // what NCCL's recorders have written since `began`, if anything (torch does before its watchdog
  // ends a worker), a copy is kept too.
  void Keep(const std::filesystem::path& bundle, NodePart part, std::vector<Recorder> recorders,
            std::filesystem::file_time_type began, std::shared_ptr<const void> held);
  // On the loop: now, or once all is written or its time is over. The last call's alone.
  void WhenWritten(std::function<void()> then);

 private:
  void TellIfWritten();

  Loop& loop_;
  bool refused_ = false;
  int under_way_ = 0;
  std::function<void()> then_;
  const Lifetime life_;
};

}  // namespace ddprun

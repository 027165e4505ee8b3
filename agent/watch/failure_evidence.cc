#include "agent/watch/failure_evidence.h"

#include <utility>

#include "agent/watch/hang_evidence.h"
#include "common/log.h"
#include "common/result.h"

namespace ddprun {

FailureEvidence::FailureEvidence(Loop& loop) : loop_(loop) {}

void FailureEvidence::Keep(const std::filesystem::path& bundle, NodePart part,
                           std::vector<Recorder> recorders, std::filesystem::file_time_type began,
                           std::shared_ptr<const void> held) {
  const auto written = std::make_shared<Result<void>>();
  const auto holds = std::make_shared<std::shared_ptr<const void>>(std::move(held));
  ++under_way_;
  loop_.RunBounded(
      HangEvidence::kOfDisk,
      [written, holds, bundle, part = std::move(part), recorders = std::move(recorders), began] {
        *written = WriteNodePart(bundle, part);
        for (const Recorder& recorder : recorders) {
          (void)KeepDump(recorder.names, recorder.rank, began, std::chrono::milliseconds(0),
                         DumpFile(bundle, recorder.rank));  // Most have written none.
        }
        holds->reset();  // Here, since the parts that end with it ask the disk.
      },
      life_.Guard([this, written](bool in_time) {
        if (in_time && !*written && !std::exchange(refused_, true)) {
          Log(LogLevel::kWarning,
              "cannot keep evidence of this failure: " + written->error().message);
        }
        --under_way_;
        TellIfWritten();
      }));
}

void FailureEvidence::WhenWritten(std::function<void()> then) {
  then_ = std::move(then);
  TellIfWritten();
}

void FailureEvidence::TellIfWritten() {
  if (under_way_ == 0 && then_) {
    std::exchange(then_, nullptr)();
  }
}

}  // namespace ddprun

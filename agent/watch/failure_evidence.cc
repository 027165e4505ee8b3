#include "agent/watch/failure_evidence.h"

#include <utility>

#include "agent/watch/hang_evidence.h"
#include "common/log.h"
#include "common/result.h"

namespace ddprun {

struct FailureEvidence::State {
  bool refused = false;
  int under_way = 0;
  std::function<void()> then;

  void TellIfWritten() {
    if (under_way == 0 && then) {
      std::exchange(then, nullptr)();
    }
  }
};

FailureEvidence::FailureEvidence(Loop& loop) : loop_(loop), state_(std::make_shared<State>()) {}

FailureEvidence::~FailureEvidence() {
  state_->then = nullptr;
}

void FailureEvidence::Keep(const std::filesystem::path& bundle, NodePart part,
                           std::vector<Recorder> recorders, std::filesystem::file_time_type began,
                           std::shared_ptr<const void> held) {
  const auto written = std::make_shared<Result<void>>();
  const auto holds = std::make_shared<std::shared_ptr<const void>>(std::move(held));
  ++state_->under_way;
  loop_.RunBounded(
      HangEvidence::kOfDisk,
      [written, holds, bundle, part = std::move(part), recorders = std::move(recorders), began] {
        *written = WriteNodePart(bundle, part);
        for (const Recorder& recorder : recorders) {
          (void)KeepDump(recorder.names, recorder.rank, began, std::chrono::milliseconds(0),
                         DumpFile(bundle, recorder.rank));  // Most have written none.
        }
        holds->reset();  // Here: what ends with it asks the disk.
      },
      [state = state_, written](bool in_time) {
        if (in_time && !*written && !std::exchange(state->refused, true)) {
          Log(LogLevel::kWarning,
              "no evidence is kept of this failure: " + written->error().message);
        }
        --state->under_way;
        state->TellIfWritten();
      });
}

void FailureEvidence::WhenWritten(std::function<void()> then) {
  state_->then = std::move(then);
  state_->TellIfWritten();
}

}  // namespace ddprun

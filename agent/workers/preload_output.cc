#include "agent/workers/preload_output.h"

#include <mutex>
#include <utility>

namespace ddprun {

// Between the maker's thread and the loop's end.
struct PreloadOutput::Shared {
  AsioLoop& loop;
  Consoles& consoles;
  std::mutex mutex;
  bool closed = false;
  std::unique_ptr<WorkerOutput> output;  // The loop's.
};

PreloadOutput::PreloadOutput(AsioLoop& loop, Consoles& consoles)
    : shared_(new Shared{.loop = loop, .consoles = consoles}) {}

PreloadOutput::~PreloadOutput() {
  const std::lock_guard lock(shared_->mutex);
  shared_->closed = true;
  shared_->output.reset();
}

WarmStart::OnStarted PreloadOutput::Reader() const {
  return [shared = shared_](const WorkerSpec& spec, OpenedOutput output) {
    const auto opened = std::make_shared<OpenedOutput>(std::move(output));
    const std::lock_guard lock(shared->mutex);
    if (!shared->closed) {
      shared->loop.Post([shared, spec, opened] {
        if (!shared->closed) {
          shared->output = std::make_unique<WorkerOutput>(shared->loop, shared->consoles, spec,
                                                          std::move(*opened));
          shared->output->Start([] {});
        }
      });
    }
  };
}

}  // namespace ddprun

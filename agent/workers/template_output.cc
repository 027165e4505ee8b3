#include "agent/workers/template_output.h"

#include <mutex>
#include <utility>

namespace ddprun {

// Between the maker's thread and the loop's end.
struct TemplateOutput::Gate {
  AsioLoop& loop;
  Consoles& consoles;
  std::mutex mutex;
  bool closed = false;
  std::unique_ptr<WorkerOutput> output;  // The loop's.
};

TemplateOutput::TemplateOutput(AsioLoop& loop, Consoles& consoles)
    : gate_(new Gate{.loop = loop, .consoles = consoles}) {}

TemplateOutput::~TemplateOutput() {
  const std::lock_guard lock(gate_->mutex);
  gate_->closed = true;
  gate_->output.reset();
}

WarmStart::OnStarted TemplateOutput::Reader() const {
  return [gate = gate_](const WorkerSpec& spec, OpenedOutput output) {
    const auto opened = std::make_shared<OpenedOutput>(std::move(output));
    const std::lock_guard lock(gate->mutex);
    if (!gate->closed) {
      gate->loop.Post([gate, spec, opened] {
        if (!gate->closed) {
          gate->output =
              std::make_unique<WorkerOutput>(gate->loop, gate->consoles, spec, std::move(*opened));
          gate->output->Start([] {});
        }
      });
    }
  };
}

}  // namespace ddprun

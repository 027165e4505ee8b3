#include "launcher/verbs/slow_output.h"

#include <unistd.h>

#include "common/exit_code.h"
#include "common/files.h"
#include "launcher/print_out.h"

namespace ddprun {

void SlowOutput::Put(const std::string& text) {
  if (text.empty() || failed()) {
    return;
  }
  shared_->bytes += text.size();
  const bool taken = queue_.Post([shared = shared_, fd = fd_, text] {
    if (!shared->dropped && !shared->failed) {
      shared->failed =
          fd == STDOUT_FILENO ? PrintOut(text) != kExitOk : !WriteAll(fd, text, "standard error");
    }
    shared->bytes -= text.size();
  });
  if (!taken) {
    shared_->failed = true;
  }
}

bool SlowOutput::Finish() {
  constexpr Duration kAnHour{3'600'000};
  while (!queue_.Drain(kAnHour)) {
  }
  return !failed();
}

}  // namespace ddprun

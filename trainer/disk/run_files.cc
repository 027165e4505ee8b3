#include "trainer/disk/run_files.h"

#include <unistd.h>

#include <atomic>
#include <utility>

namespace ddprun {
namespace {

// A disk answers in much less; one that does not is not waited for again before it has.
constexpr std::chrono::milliseconds kBriefly{5};

}  // namespace

struct RunFiles::Seen {
  std::atomic<bool> looking{false};
  std::atomic<bool> stop{false};
  std::atomic<bool> save{false};
};

RunFiles::RunFiles(const std::filesystem::path& directory)
    : RunFiles([directory] {
        const std::filesystem::path save = directory / "SAVE";
        return Asked{.stop = StopAsked(directory),
                     .save = ::access(save.c_str(), F_OK) == 0 && ::unlink(save.c_str()) == 0};
      }) {}

RunFiles::RunFiles(std::function<Asked()> look)
    : look_(std::move(look)), seen_(std::make_shared<Seen>()) {}

bool RunFiles::StopAsked(const std::filesystem::path& directory) {
  return ::access((directory / "STOP").c_str(), F_OK) == 0;
}

RunFiles::Asked RunFiles::Poll() {
  Look();
  return {.stop = seen_->stop, .save = seen_->save.exchange(false)};
}

bool RunFiles::StopsNow() {
  Look();
  return seen_->stop;
}

void RunFiles::Look() {
  if (!seen_->looking.exchange(true)) {
    thread_.Post([seen = seen_, look = look_] {
      const Asked found = look();
      seen->stop = found.stop;
      if (found.save) {
        seen->save = true;
      }
      seen->looking = false;
    });
    (void)thread_.Drain(kBriefly);
  }
}

}  // namespace ddprun

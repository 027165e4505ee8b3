#include "trainer/disk/run_files.h"

#include <unistd.h>

namespace ddprun {

bool RunFiles::StopAsked(const std::filesystem::path& directory) {
  return ::access((directory / "STOP").c_str(), F_OK) == 0;
}

void RunFiles::Look() {
  stop_ = StopAsked(directory_);
  const std::filesystem::path save = directory_ / "SAVE";
  if (::access(save.c_str(), F_OK) == 0 && ::unlink(save.c_str()) == 0) {
    save_ = true;
  }
}

}  // namespace ddprun

#include "trainer/run_files.h"

#include <unistd.h>

namespace ddprun {

RunFiles::RunFiles(const std::filesystem::path& directory)
    : stop_(directory / "STOP"), save_(directory / "SAVE") {}

bool RunFiles::StopAsked() const {
  return ::access(stop_.c_str(), F_OK) == 0;
}

bool RunFiles::TakeSave() const {
  return ::access(save_.c_str(), F_OK) == 0 && ::unlink(save_.c_str()) == 0;
}

}  // namespace ddprun

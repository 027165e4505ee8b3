// A directory of this process's own for targets that read files; in memory where the machine has
// /dev/shm.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/check.h"

namespace ddprun {

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name =
        ::access("/dev/shm", W_OK) == 0 ? "/dev/shm/ddprun-fuzz-XXXXXX" : "/tmp/ddprun-fuzz-XXXXXX";
    CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ddprun

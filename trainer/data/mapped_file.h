// A file's bytes in memory without reading them: pages come when they are touched, and ranks of one
// node share them.
//
// Read-only. A file that shrinks while it is mapped kills the process when a lost page is touched
// (SIGBUS), as with any mapping: replace data files by renaming, never in place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "common/result.h"

namespace ddprun {

struct MappedFile {
  std::span<const std::uint8_t> bytes;
  std::shared_ptr<const void> owner;  // Keeps `bytes` valid. Null: an empty file.
};

Result<MappedFile> MapFile(const std::filesystem::path& path);

// kInvalid: a data set cannot use what is in the file.
Error BadFile(const std::filesystem::path& path, const std::string& why);

}  // namespace ddprun

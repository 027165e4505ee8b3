// A file's bytes in memory without reading them: pages come when they are touched, and ranks of one
// node share them.
//
// Read-only. A file that shrinks while it is mapped kills the process when a lost page is touched
// (SIGBUS), as with any mapping: replace data files by renaming, never in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "common/result.h"

namespace ddprun {

class MappedFile {
 public:
  static Result<MappedFile> Open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::uint8_t> bytes() const { return {data_, size_}; }

 private:
  MappedFile() = default;

  const std::uint8_t* data_ = nullptr;  // Null: an empty file.
  std::size_t size_ = 0;
};

}  // namespace ddprun

// The file operations of which checkpoints are made, one virtual function each, so that tests can
// fail or "kill" at every single one.
//
// Nothing here is durable until Sync was called on it: a file's bytes by Sync(file), a name by
// Sync(its directory).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/bytes.h"

namespace ddprun {

struct DigestedBytes {
  Bytes bytes;
  std::uint64_t xxh64 = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Names in a directory. kNotFound where there is none.
  virtual Result<std::vector<std::string>> List(const std::filesystem::path& directory) = 0;
  // kNotFound where there is no file; refused beyond max_bytes, and what is no ordinary file.
  virtual Result<std::string> Read(const std::filesystem::path& path, std::size_t max_bytes) = 0;
  // The same for large files, all of it or an error. The digest is taken while the bytes are in the
  // processor's cache, which makes it nearly free.
  virtual Result<DigestedBytes> ReadDigested(const std::filesystem::path& path,
                                             std::size_t max_bytes) = 0;
  // A new file made of the parts, and the xxh64 of it; an older one of that name is replaced. Not
  // durable yet.
  virtual Result<std::uint64_t> Write(const std::filesystem::path& path,
                                      const std::vector<std::string_view>& parts) = 0;
  virtual Result<void> Sync(const std::filesystem::path& path) = 0;
  // Gives `existing` a second name. False: `name` is taken.
  virtual Result<bool> Link(const std::filesystem::path& existing,
                            const std::filesystem::path& name) = 0;
  virtual Result<void> Rename(const std::filesystem::path& from,
                              const std::filesystem::path& to) = 0;
  virtual Result<void> MakeDirectory(const std::filesystem::path& path) = 0;  // And its parents.
  // A file, or a directory with all in it. Fine if there is none.
  virtual Result<void> Remove(const std::filesystem::path& path) = 0;
  virtual Result<std::uint64_t> FreeBytes(const std::filesystem::path& directory) = 0;
};

// The operating system's. Stateless, any thread.
FileSystem& RealFileSystem();

}  // namespace ddprun

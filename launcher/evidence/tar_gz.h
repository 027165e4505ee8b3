// A gzip file of a tar archive (POSIX's ustar), made in memory and written whole or not at all.
//
// The caller adds file after file. WriteArchive blocks on the disk.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.h"

namespace ddprun {

// The 512 bytes before a file of `size` bytes. kInvalid: the name is longer than ustar takes.
Result<std::string> TarHeader(const std::string& name, std::uint64_t size, std::int64_t mtime);

class TarGz {
 public:
  TarGz();
  TarGz(const TarGz&) = delete;
  ~TarGz();

  Result<void> Add(const std::string& name, std::string_view bytes, std::int64_t mtime);
  // The archive; the last call.
  std::string Finish();

 private:
  void Put(std::string_view bytes, int flush);

  z_stream stream_{};
  std::string made_;
};

// kKeep: an existing file of that name is an error; kReplace: an ordinary file is replaced,
// anything else is an error.
enum class IfThere { kKeep, kReplace };
Result<void> MayBeWritten(const std::filesystem::path& path, IfThere if_there);
Result<void> WriteArchive(const std::filesystem::path& path, IfThere if_there,
                          std::string_view archive);

}  // namespace ddprun

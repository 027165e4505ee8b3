// A gzip file of a tar archive (POSIX's ustar), made beside its name: it is there whole or not at
// all. One that is never finished leaves nothing.
//
// Only writing: the caller adds file after file, each in memory. Blocks on the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "common/files.h"
#include "common/result.h"

namespace ddprun {

// The 512 bytes before a file of `size` bytes. kInvalid: the name is longer than ustar takes.
Result<std::string> TarHeader(const std::string& name, std::uint64_t size, std::int64_t mtime);

enum class IfThere { kKeep, kReplace };

class TarGz {
 public:
  // kKeep: an existing file of that name is an error, now and at the end; kReplace: an ordinary
  // file is replaced, anything else is an error.
  static Result<TarGz> Make(const std::filesystem::path& path, IfThere if_there);
  TarGz(TarGz&& other) noexcept;
  TarGz(const TarGz&) = delete;
  ~TarGz();

  Result<void> Add(const std::string& name, std::string_view bytes, std::int64_t mtime);
  // Gives it its name.
  Result<void> Finish();

 private:
  struct Stream;  // zlib's.

  TarGz(std::filesystem::path path, IfThere if_there);
  Result<void> Open();
  Result<void> Put(std::string_view bytes, bool last);
  Result<void> GiveName();

  std::filesystem::path path_;
  IfThere if_there_;
  UniqueFd fd_;
  std::filesystem::path part_;  // Its name meanwhile; empty: it has none.
  std::unique_ptr<Stream> stream_;
};

}  // namespace ddprun

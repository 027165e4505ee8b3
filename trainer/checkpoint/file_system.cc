#include "trainer/checkpoint/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/files.h"
#include "trainer/checkpoint/digest.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxNames = 1'000'000;
constexpr std::size_t kSmallPiece = 64 << 10;
constexpr std::size_t kWriteChunk = 256 << 10;
constexpr std::size_t kReadChunk = 256 << 10;
constexpr unsigned kDirectoryMode = 0777;  // The umask decides, as for anything a program makes.

// SystemError, of kind kNotFound where that is the reason.
Error Failed(std::string_view tried, const fs::path& on, int error_number) {
  Error error = SystemError(tried, on.native(), error_number);
  error.kind = error_number == ENOENT ? ErrorKind::kNotFound : ErrorKind::kSystem;
  return error;
}

// A size that does not fit into this machine at all is refused at once.
std::uint64_t MachineMemory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

Result<void> WriteDigested(int fd, std::string_view bytes, const fs::path& path,
                           StreamDigest& digest) {
  while (!bytes.empty()) {
    const std::string_view chunk = bytes.substr(0, kWriteChunk);
    digest.Add(chunk);
    RETURN_IF_ERROR(WriteAll(fd, chunk, path));
    bytes.remove_prefix(chunk.size());
  }
  return {};
}

class OperatingSystemFiles : public FileSystem {
 public:
  Result<std::vector<std::string>> List(const fs::path& directory) override {
    std::error_code code;
    fs::directory_iterator entry(directory, code);
    std::vector<std::string> names;
    while (!code && entry != fs::directory_iterator() && names.size() < kMaxNames) {
      names.push_back(entry->path().filename().native());
      entry.increment(code);
    }
    if (code) {
      return Failed("list", directory, code.value());
    }
    if (names.size() == kMaxNames) {
      return Invalid("the directory holds too many files", directory.native());
    }
    return names;
  }

  Result<std::string> Read(const fs::path& path, std::size_t max_bytes) override {
    return ReadFile(path, max_bytes);
  }

  Result<DigestedBytes> ReadDigested(const fs::path& path, std::size_t max_bytes) override {
    ASSIGN_OR_RETURN(const UniqueFd fd, OpenToRead(path));
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) {
      return SystemError("look at", path.native(), errno);
    }
    const auto size = static_cast<std::size_t>(info.st_size);
    if (size > max_bytes) {
      return Invalid("the file is larger than " + std::to_string(max_bytes) + " bytes",
                     path.native());
    }
    if (size > MachineMemory()) {
      return Invalid(
          "the file, of " + std::to_string(size) + " bytes, is larger than this machine's memory",
          path.native());
    }
    Bytes bytes = Bytes::Uninitialized(size);
    StreamDigest digest;
    for (std::size_t at = 0; at < size;) {
      const ssize_t got =
          ::read(fd.get(), bytes.mutable_data() + at, std::min(kReadChunk, size - at));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got <= 0) {
        return got < 0 ? SystemError("read", path.native(), errno)
                       : Invalid("the file became shorter while it was read", path.native());
      }
      digest.Add({bytes.data() + at, static_cast<std::size_t>(got)});
      at += static_cast<std::size_t>(got);
    }
    return DigestedBytes{std::move(bytes), digest.Value()};
  }

  Result<std::uint64_t> Write(const fs::path& path,
                              const std::vector<std::string_view>& parts) override {
    // Never what the name stands for now: a link to that may be a record that counts.
    constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    UniqueFd fd(::open(path.c_str(), kNew, 0666));
    if (!fd && errno == EEXIST && ::unlink(path.c_str()) == 0) {
      fd = UniqueFd(::open(path.c_str(), kNew, 0666));
    }
    if (!fd) {
      return Failed("create", path, errno);
    }
    StreamDigest digest;
    std::string small;  // Pieces not worth a system call each.
    for (std::string_view part : parts) {
      if (part.size() < kSmallPiece) {
        small += part;
      }
      if (part.size() >= kSmallPiece || small.size() >= kWriteChunk) {
        RETURN_IF_ERROR(WriteDigested(fd.get(), std::exchange(small, {}), path, digest));
      }
      if (part.size() >= kSmallPiece) {
        RETURN_IF_ERROR(WriteDigested(fd.get(), part, path, digest));
      }
    }
    RETURN_IF_ERROR(WriteDigested(fd.get(), small, path, digest));
    if (::close(fd.Release()) != 0) {  // Where quotas on network file systems speak up.
      return SystemError("close", path.native(), errno);
    }
    return digest.Value();
  }

  Result<void> Sync(const fs::path& path) override { return SyncPath(path); }

  Result<bool> Link(const fs::path& existing, const fs::path& name) override {
    if (::link(existing.c_str(), name.c_str()) == 0) {
      return true;
    }
    const int error_number = errno;
    if (error_number == EEXIST) {
      return false;
    }
    return Failed("link " + existing.native() + " to", name, error_number);
  }

  Result<void> Rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      const int error_number = errno;
      return Failed("rename " + from.native() + " to", to, error_number);
    }
    return {};
  }

  Result<void> MakeDirectory(const fs::path& path) override {
    return MakeDirectories(path, kDirectoryMode);
  }

  Result<void> Remove(const fs::path& path) override {
    std::error_code code;
    fs::remove_all(path, code);
    if (code) {
      return SystemError("remove", path.native(), code.value());
    }
    return {};
  }

  Result<std::uint64_t> FreeBytes(const fs::path& directory) override {
    struct statvfs info {};
    if (::statvfs(directory.c_str(), &info) != 0) {
      return SystemError("ask for free space at", directory.native(), errno);
    }
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  }
};

}  // namespace

FileSystem& RealFileSystem() {
  static OperatingSystemFiles files;
  return files;
}

}  // namespace ddprun

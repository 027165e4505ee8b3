#include "trainer/checkpoint/file_system.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "common/files.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxNames = 1'000'000;
constexpr unsigned kDirectoryMode = 0777;  // The umask decides, as for anything a program makes.

Error WithNotFound(Error error, int error_number) {
  error.kind = error_number == ENOENT ? ErrorKind::kNotFound : ErrorKind::kSystem;
  return error;
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
      return WithNotFound(SystemError("list", directory.native(), code.value()), code.value());
    }
    if (names.size() == kMaxNames) {
      return Invalid("the directory holds too many files", directory.native());
    }
    return names;
  }

  Result<std::string> Read(const fs::path& path, std::size_t max_bytes) override {
    return ReadFile(path, max_bytes);
  }

  Result<void> Write(const fs::path& path, const std::vector<std::string_view>& parts) override {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!fd) {
      return WithNotFound(SystemError("create", path.native(), errno), errno);
    }
    for (const std::string_view part : parts) {
      RETURN_IF_ERROR(WriteAll(fd.get(), part, path));
    }
    if (::close(fd.Release()) != 0) {  // Where quotas on network file systems speak up.
      return SystemError("close", path.native(), errno);
    }
    return {};
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
    return WithNotFound(
        SystemError("link " + existing.native() + " to", name.native(), error_number),
        error_number);
  }

  Result<void> Rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      const int error_number = errno;
      return WithNotFound(SystemError("rename " + from.native() + " to", to.native(), error_number),
                          error_number);
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

#include "trainer/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "common/files.h"

namespace ddprun {

Result<MappedFile> MapFile(const std::filesystem::path& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) {
    return SystemError("open the data file", path.string(), errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return Invalid("not a regular file", path.string());
  }
  MappedFile file;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > 0) {
    void* const data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) {
      return SystemError("map the data file", path.string(), errno);
    }
    file.bytes = {static_cast<const std::uint8_t*>(data), size};
    file.owner = std::shared_ptr<void>(data, [size](void* mapped) { munmap(mapped, size); });
  }
  return file;
}

Error BadFile(const std::filesystem::path& path, const std::string& why) {
  return {ErrorKind::kInvalid, "cannot use the data file '" + path.string() + "': " + why};
}

}  // namespace ddprun

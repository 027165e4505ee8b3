#include "trainer/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "common/files.h"

namespace ddprun {

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) {
    return SystemError("open the data file", path.string(), errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return Invalid("not a regular file", path.string());
  }
  MappedFile file;
  file.size_ = static_cast<std::size_t>(status.st_size);
  if (file.size_ > 0) {
    void* const data = mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) {
      return SystemError("map the data file", path.string(), errno);
    }
    file.data_ = static_cast<const std::uint8_t*>(data);
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    munmap(const_cast<std::uint8_t*>(data_), size_);
  }
}

}  // namespace ddprun

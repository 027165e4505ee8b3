#include "agent/watch/foreign_descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <limits>
#include <utility>

namespace ddprun {

Result<std::uint64_t> BytesOfSealed(int fd) {
  constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSealed) != kSealed) {
    return Error{ErrorKind::kRefused,
                 "it is not a memfd that is sealed against shrinking and growing"};
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return SystemError("look at", "a memfd", errno);
  }
  return static_cast<std::uint64_t>(info.st_size);
}

ForeignDescriptors::ForeignDescriptors()
    : line_(std::make_shared<TaskQueue>(std::numeric_limits<std::size_t>::max())) {}

ForeignFd ForeignDescriptors::Take(UniqueFd fd) {
  auto owned = std::make_unique<UniqueFd>(std::move(fd));
  return {owned.release(), [line = line_](UniqueFd* last) {
            const auto closes = std::shared_ptr<UniqueFd>(last);
            if (!line->Post([closes] { closes->Reset(); })) {
              (void)closes->Release();  // Without a thread it is better left open than waited for.
            }
          }};
}

bool ForeignDescriptors::full() const {
  return line_->waiting() >= kMostWaiting;
}

}  // namespace ddprun

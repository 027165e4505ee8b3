#include "agent/watch/foreign_descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "common/loop.h"

namespace ddprun {

Result<std::uint64_t> BytesOfSealed(int fd) {
  constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSealed) != kSealed) {
    return Error{ErrorKind::kRefused,
                 "it is no memfd that is sealed against shrinking and growing"};
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return SystemError("look at", "a memfd", errno);
  }
  return static_cast<std::uint64_t>(info.st_size);
}

// The descriptors to close, and whether a thread is closing one.
struct ForeignDescriptors::Line : std::enable_shared_from_this<Line> {
  void Close(UniqueFd fd);
  void Work();

  mutable std::mutex mutex;
  std::vector<UniqueFd> waiting;
  bool working = false;
};

void ForeignDescriptors::Line::Close(UniqueFd fd) {
  const std::lock_guard lock(mutex);
  waiting.push_back(std::move(fd));
  // Without a thread they wait for the next one.
  working = working || StartThread([self = shared_from_this()] { self->Work(); });
}

void ForeignDescriptors::Line::Work() {
  std::unique_lock lock(mutex);
  while (!waiting.empty()) {
    UniqueFd next = std::move(waiting.back());
    waiting.pop_back();
    lock.unlock();
    next.Reset();
    lock.lock();
  }
  working = false;
}

ForeignDescriptors::ForeignDescriptors() : line_(std::make_shared<Line>()) {}

ForeignFd ForeignDescriptors::Take(UniqueFd fd) {
  auto owned = std::make_unique<UniqueFd>(std::move(fd));
  return {owned.release(), [line = line_](UniqueFd* last) {
            line->Close(std::move(*last));
            delete last;
          }};
}

bool ForeignDescriptors::full() const {
  const std::lock_guard lock(line_->mutex);
  return line_->waiting.size() >= kMostWaiting;
}

}  // namespace ddprun

#include "agent/watch/memory_store.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "agent/watch/memory_kills.h"
#include "proto/memory_block.h"

namespace ddprun {
namespace {

constexpr const char* kUnnamed = "stored";

Error Refused(std::string why) {
  return {ErrorKind::kRefused, std::move(why)};
}

// The size of a memfd that is sealed against shrinking and growing. Asked first of what may be
// anything: it waits for nothing.
Result<std::uint64_t> BytesOfSealed(int fd) {
  constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSealed) != kSealed) {
    return Refused("it is not a memfd that is sealed against shrinking and growing");
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return SystemError("look at", "a memfd", errno);
  }
  return static_cast<std::uint64_t>(info.st_size);
}

// This process needs descriptors for other things too.
Result<void> CheckRoom(int fd) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && static_cast<rlim_t>(fd) >= files.rlim_cur / 2) {
    return Refused("half of the agent's descriptors (ulimit -n is " +
                   std::to_string(files.rlim_cur) + ") are in use");
  }
  return {};
}

}  // namespace

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

Result<void> MemoryStore::Hear(std::uint32_t local_rank, const Notification& said,
                               const SentDescriptor& sent) {
  const std::string name = said.block.value_or(kUnnamed);
  if (said.remove && said.block) {
    auto& own = kept_[local_rank];
    if (const auto found = own.find(name); found != own.end()) {
      bytes_ -= found->second.bytes;
      own.erase(found);
    }
  }
  if (sent.cut) {
    return Refused(
        "a message had several descriptors, or the agent's limit of descriptors (ulimit -n) is "
        "reached");
  }
  if (said.store != (sent.file != nullptr)) {
    return Refused(said.store ? "FDSTORE=1 came without a descriptor"
                              : "a descriptor came without FDSTORE=1");
  }
  if (!said.store) {
    return {};
  }
  if (name.empty()) {
    return Refused("FDNAME must have 1 to 255 characters, printable and no ':'");
  }
  return Keep(local_rank, name, sent.file);
}

Result<void> MemoryStore::Keep(std::uint32_t local_rank, const std::string& name,
                               const ForeignFd& file) {
  ASSIGN_OR_RETURN(const std::uint64_t bytes, BytesOfSealed(file->get()));
  RETURN_IF_ERROR(CheckRoom(file->get()));
  auto& own = kept_[local_rank];
  const auto before = own.find(name);
  if (before == own.end() && own.size() >= kMostBlocks) {
    return Refused("a worker may leave at most " + std::to_string(kMostBlocks) + " blocks");
  }
  const std::uint64_t others = bytes_ - (before == own.end() ? 0 : before->second.bytes);
  if (bytes > most_bytes_ - std::min(most_bytes_, others)) {
    return Refused("'" + name + "' has " + std::to_string(bytes) + " bytes, and " +
                   std::to_string(others) + " of " + std::to_string(most_bytes_) +
                   " are in use (a quarter of the memory)");
  }
  bytes_ = others + bytes;
  own[name] = {file, bytes};
  return {};
}

std::vector<MemoryBlock> MemoryStore::BlocksOf(std::uint32_t local_rank) const {
  std::vector<MemoryBlock> blocks;
  if (const auto own = kept_.find(local_rank); own != kept_.end()) {
    for (const auto& [name, kept] : own->second) {
      blocks.push_back({name, kept.file});
    }
  }
  return blocks;
}

std::uint64_t MostKeptBytes() {
  const std::uint64_t machine = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(machine, MemoryLimit()) / 4;
}

}  // namespace ddprun

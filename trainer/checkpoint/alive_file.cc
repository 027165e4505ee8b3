#include "trainer/checkpoint/alive_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "common/endpoint.h"
#include "trainer/checkpoint/file_system.h"

namespace ddprun {
namespace {

constexpr std::size_t kContentBytes = 512;
constexpr int kHoldTries = 50;
constexpr std::chrono::milliseconds kHoldWait{20};

// "<host> <run> <world> <count>", padded: always one write of one size.
std::string Content(const std::string& host, const Writer& writer, std::uint64_t count) {
  std::string out =
      host + " " + writer.run_id + " " + Hex(writer.world_id.value) + " " + std::to_string(count);
  out.resize(kContentBytes - 1, ' ');
  return out + "\n";
}

}  // namespace

AliveFile::AliveFile(const std::filesystem::path& directory, AliveOptions options)
    : path_(directory / "fence-alive"), options_(std::move(options)) {
  if (!options_.wait) {
    options_.wait = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); };
  }
  if (options_.host.empty()) {
    options_.host = HostName();
  }
}

Result<void> AliveFile::Open() {
  struct stat info {};
  if (fd_ && ::fstat(fd_.get(), &info) == 0 && info.st_nlink > 0) {
    return {};
  }
  held_ = false;
  fd_ = UniqueFd(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd_) {
    return SystemError("open", path_.native(), errno);
  }
  return {};
}

Result<std::string> AliveFile::ReadCounter() const {
  // Opened anew: that is what makes NFS look again.
  return RealFileSystem().Read(path_, kContentBytes);
}

Result<bool> AliveFile::CounterMoves() const {
  ASSIGN_OR_RETURN(const std::string first, ReadCounter());
  if (first.empty()) {
    return false;  // No process ever held this directory.
  }
  for (std::chrono::milliseconds waited{0}; waited < options_.watch; waited += options_.poll) {
    options_.wait(options_.poll);
    ASSIGN_OR_RETURN(const std::string now, ReadCounter());
    if (now != first) {
      return true;
    }
  }
  return false;
}

Result<bool> AliveFile::OthersLive() {
  RETURN_IF_ERROR(Open());
  if (options_.use_locks && ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) {
    held_ = ::flock(fd_.get(), LOCK_SH | LOCK_NB) == 0;
    ASSIGN_OR_RETURN(const std::string content, ReadCounter());
    if (content.empty() || content.starts_with(options_.host + " ")) {
      return false;
    }
  } else if (options_.use_locks && errno == EWOULDBLOCK) {
    return true;
  }
  ASSIGN_OR_RETURN(const bool moves, CounterMoves());
  if (moves) {
    Release();
  }
  return moves;
}

void AliveFile::Hold(const Writer& writer) {
  writer_ = writer;
  if (!Open()) {
    return;  // Move tries again. Until then a newcomer may think that this run is dead.
  }
  for (int i = 0; i < kHoldTries && options_.use_locks && !held_; ++i) {
    held_ = ::flock(fd_.get(), LOCK_SH | LOCK_NB) == 0;
    if (!held_ && errno != EWOULDBLOCK) {
      break;  // Locks do not work here: the counter must do.
    }
    if (!held_) {
      options_.wait(kHoldWait);  // A newcomer tests the lock, or has just taken it over.
    }
  }
  Move();
}

void AliveFile::Move() {
  if (!Open()) {
    return;
  }
  if (options_.use_locks && !held_) {
    held_ = ::flock(fd_.get(), LOCK_SH | LOCK_NB) == 0;
  }
  const std::string content = Content(options_.host, writer_, ++count_);
  if (::pwrite(fd_.get(), content.data(), content.size(), 0) > 0) {
    ::fdatasync(fd_.get());
  }
}

void AliveFile::Release() {
  fd_.Reset();
  held_ = false;
}

}  // namespace ddprun

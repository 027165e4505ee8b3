// The few file operations that all parts need, as Results that name the file.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace ddprun {

// A file descriptor that closes itself. -1: none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int Release();
  void Reset();

 private:
  int fd_ = -1;
};

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};
Result<Pipe> MakePipe();

// The whole file, refused beyond max_bytes. A path that is not a file (a FIFO, a device, a
// directory) is kInvalid and never waited for; a link is as good as its target.
Result<std::string> ReadFile(const std::filesystem::path& path, std::size_t max_bytes);
// Opens the files that ReadFile reads.
Result<UniqueFd> OpenToRead(const std::filesystem::path& path);

// For a path at which other processes may have put anything: an ordinary file, or an error. A FIFO,
// a device and a link are refused and never waited for; a disk that hangs still is.
Result<UniqueFd> OpenOrdinary(const std::filesystem::path& path, int flags, unsigned mode);
Result<std::string> ReadOrdinary(const std::filesystem::path& path, std::size_t max_bytes);
// From an open one; `path` is for people.
Result<std::string> ReadToEnd(int fd, const std::filesystem::path& path, std::size_t max_bytes);

// Writes every byte or says why not.
Result<void> WriteAll(int fd, std::string_view bytes, const std::filesystem::path& name);

// A file that is there whole or not at all: made beside its name, and renamed. An older file of
// that name is replaced, and so is a "<path>.part" that another process left; a directory is not,
// and refused.
Result<void> WriteWhole(const std::filesystem::path& path, std::string_view text, unsigned mode);

// A new file of this directory, mode 0600, with the text on disk, under a name that no other
// process uses: to be renamed, linked or removed by the caller.
Result<std::filesystem::path> WriteTemporary(const std::filesystem::path& directory,
                                             std::string_view text);
// Gives a temporary file its name, if that is free, in one step on network file systems too, and
// removes the temporary name. False: the name is taken.
Result<bool> LinkTemporary(const std::filesystem::path& temporary,
                           const std::filesystem::path& name);

// One message with descriptors beside its bytes, to a Unix socket; false: errno says why.
bool SendWithDescriptors(int socket, std::string_view bytes, std::span<const int> descriptors,
                         int flags);

// The other end of it.
struct Received {
  ssize_t size = -1;  // recvmsg's result; errno says why there is nothing.
  std::vector<UniqueFd> descriptors;
  bool cut = false;  // More came than are wanted.
};
Received ReceiveWithDescriptors(int socket, std::span<char> bytes, std::size_t most, int flags);

// ::bind or ::connect at the path of a Unix socket. False: errno says why.
bool AtUnixPath(int (*call)(int, const sockaddr*, socklen_t), int socket,
                const std::filesystem::path& path);

// A file in memory alone, with this text.
Result<UniqueFd> MemoryFile(const char* name, std::string_view text);

// The entries of a directory, in its own order; fewer, or none, where it cannot be read.
std::vector<std::filesystem::path> EntriesOf(const std::filesystem::path& directory,
                                             std::size_t most = SIZE_MAX);

// fsync of a file or a directory; a FIFO is an error and never waited for.
Result<void> SyncPath(const std::filesystem::path& path);

// The directory and its parents; existing ones are fine.
Result<void> MakeDirectories(const std::filesystem::path& path, unsigned mode);

// As a part of a file's name: all characters but letters, digits, '.', '_' and '-' become '_'; 64
// bytes at most.
std::string AsFileName(const std::string& name);

// Whether it is a directory, no link to one, that belongs to this user, or to root, and that no
// other user can write to: else any user may have made its files.
Result<void> CheckOwnDirectory(const std::filesystem::path& path);

}  // namespace ddprun

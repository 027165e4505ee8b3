#include "common/files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/text.h"

namespace ddprun {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = other.Release();
  }
  return *this;
}

int UniqueFd::Release() {
  return std::exchange(fd_, -1);
}

void UniqueFd::Reset() {
  if (fd_ >= 0) {
    ::close(std::exchange(fd_, -1));
  }
}

Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return SystemError("make", "a pipe", errno);
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

namespace {

Error OpenError(const std::filesystem::path& path, int error_number) {
  Error error = SystemError("open", path.native(), error_number);
  error.kind = error_number == ENOENT ? ErrorKind::kNotFound : ErrorKind::kSystem;
  return error;
}

}  // namespace

Result<std::string> ReadToEnd(int fd, const std::filesystem::path& path, std::size_t max_bytes) {
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return SystemError("read", path.native(), errno);
    }
    if (got == 0) {
      return bytes;
    }
    if (bytes.size() + static_cast<std::size_t>(got) > max_bytes) {
      return Invalid("the file is larger than " + std::to_string(max_bytes) + " bytes",
                     path.native());
    }
    bytes.append(buffer, static_cast<std::size_t>(got));
  }
}

Result<UniqueFd> OpenToRead(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    return OpenError(path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return Invalid("this is not an ordinary file", path.native());
  }
  return fd;
}

Result<std::string> ReadFile(const std::filesystem::path& path, std::size_t max_bytes) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenToRead(path));
  return ReadToEnd(fd.get(), path, max_bytes);
}

Result<UniqueFd> OpenOrdinary(const std::filesystem::path& path, int flags, unsigned mode) {
  constexpr int kNoWaiting = O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
  UniqueFd fd(::open(path.c_str(), flags | kNoWaiting, mode));
  if (!fd && errno != ENXIO && errno != ELOOP) {  // A FIFO without a reader; a link.
    return OpenError(path, errno);
  }
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Error{ErrorKind::kRefused,
                 "cannot open '" + path.native() +
                     "': it is not an ordinary file (a FIFO, a device or a link)"};
  }
  // A process that gets it from us, a worker as its output, expects it to wait.
  const int status = ::fcntl(fd.get(), F_GETFL);
  if (status < 0 || ::fcntl(fd.get(), F_SETFL, status & ~O_NONBLOCK) != 0) {
    return OpenError(path, errno);
  }
  return fd;
}

Result<std::string> ReadOrdinary(const std::filesystem::path& path, std::size_t max_bytes) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenOrdinary(path, O_RDONLY, 0));
  return ReadToEnd(fd.get(), path, max_bytes);
}

Result<void> WriteAll(int fd, std::string_view bytes, const std::filesystem::path& name) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0) {
      return SystemError("write", name.native(), errno);
    }
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Result<void> WriteWhole(const std::filesystem::path& path, std::string_view text, unsigned mode) {
  const std::string part = path.native() + ".part";
  ::unlink(part.c_str());  // Of a writer whose disk hung, or a trap: it is never followed.
  UniqueFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) {
    return SystemError("make", part, errno);
  }
  Result<void> written = WriteAll(fd.get(), text, path);
  if (written && ::close(fd.Release()) != 0) {  // Where a server has the disk.
    written = SystemError("write", path.native(), errno);
  }
  if (written && ::rename(part.c_str(), path.c_str()) != 0) {
    written = SystemError("give its name to", path.native(), errno);
  }
  if (!written) {
    ::unlink(part.c_str());
  }
  return written;
}

Result<std::filesystem::path> WriteTemporary(const std::filesystem::path& directory,
                                             std::string_view text) {
  std::string name = (directory / ".new-XXXXXX").native();
  const UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));  // Mode 0600.
  if (!fd) {
    return SystemError("make a file in the directory", directory.native(), errno);
  }
  Result<void> written = WriteAll(fd.get(), text, name);
  if (written && ::fsync(fd.get()) != 0) {
    written = SystemError("write", name, errno);
  }
  if (!written) {
    ::unlink(name.c_str());
    return written.error();
  }
  return std::filesystem::path(name);
}

Result<bool> LinkTemporary(const std::filesystem::path& temporary,
                           const std::filesystem::path& name) {
  const int failed = ::link(temporary.c_str(), name.c_str()) == 0 ? 0 : errno;
  ::unlink(temporary.c_str());
  if (failed != 0 && failed != EEXIST) {
    return SystemError("give its name to", name.native(), failed);
  }
  return failed == 0;
}

constexpr std::size_t kMostDescriptors = 253;  // The kernel's limit.

bool SendWithDescriptors(int socket, std::string_view bytes, std::span<const int> descriptors,
                         int flags) {
  CHECK(descriptors.size() <= kMostDescriptors);
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  return ::sendmsg(socket, &message, flags | MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

Received ReceiveWithDescriptors(int socket, std::span<char> bytes, std::size_t most, int flags) {
  CHECK(most <= kMostDescriptors);
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  // Not CMSG_SPACE, which may have room for one more: the kernel drops what has none, and says so.
  message.msg_controllen = most == 0 ? 0 : CMSG_LEN(most * sizeof(int));
  Received received{.size = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC)};
  const cmsghdr* const header = received.size < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    for (std::size_t at = 0; at < header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + at, sizeof descriptor);
      received.descriptors.emplace_back(descriptor);
    }
  }
  received.cut = (message.msg_flags & MSG_CTRUNC) != 0;
  return received;
}

bool AtUnixPath(int (*call)(int, const sockaddr*, socklen_t), int socket,
                const std::filesystem::path& path) {
  sockaddr_un address{.sun_family = AF_UNIX};
  const std::string& name = path.native();
  if (name.empty() || name.size() >= sizeof address.sun_path) {
    errno = name.empty() ? ENOENT : ENAMETOOLONG;
    return false;
  }
  name.copy(address.sun_path, name.size());
  return call(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

Result<UniqueFd> MemoryFile(const char* name, std::string_view text) {
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC));
  if (!file) {
    return SystemError("make", "a memory file", errno);
  }
  RETURN_IF_ERROR(WriteAll(file.get(), text, "a memory file"));
  return file;
}

std::vector<std::filesystem::path> EntriesOf(const std::filesystem::path& directory,
                                             std::size_t most) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end;
       !error && entry != end && entries.size() < most; entry.increment(error)) {
    entries.push_back(entry->path());
  }
  return entries;
}

Result<void> SyncPath(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd) {
    return SystemError("open for fsync", path.native(), errno);
  }
  if (::fsync(fd.get()) != 0) {
    return SystemError("fsync", path.native(), errno);
  }
  return {};
}

Result<void> MakeDirectories(const std::filesystem::path& path, unsigned mode) {
  if (path.empty() || ::mkdir(path.c_str(), mode) == 0) {
    return {};
  }
  if (errno == ENOENT && path.has_parent_path() && path.parent_path() != path) {
    RETURN_IF_ERROR(MakeDirectories(path.parent_path(), mode));
    if (::mkdir(path.c_str(), mode) == 0) {
      return {};
    }
  }
  const int error_number = errno;
  struct stat info {};
  if (error_number == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return {};
  }
  return SystemError("make directory", path.native(), error_number);
}

Result<void> CheckOwnDirectory(const std::filesystem::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    return SystemError("look at the directory", path.native(), errno);
  }
  const std::string what = "the directory '" + path.native() + "' ";
  if (!S_ISDIR(info.st_mode)) {
    return Error{ErrorKind::kRefused, what + "is a link or a file"};
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return Error{ErrorKind::kRefused, what + "belongs to another user (uid " +
                                          std::to_string(info.st_uid) + "), who could change " +
                                          "what is in it"};
  }
  if ((info.st_mode & 022) != 0) {
    return Error{ErrorKind::kRefused, what + "may be written to by other users"};
  }
  return {};
}

std::string AsFileName(const std::string& name) {
  constexpr std::size_t kMost = 64;
  std::string safe = name.substr(0, kMost);
  for (char& c : safe) {
    c = IsLetterOrDigit(c) || c == '.' || c == '-' ? c : '_';
  }
  return safe.empty() || safe.starts_with('.') ? "_" + safe : safe;
}

}  // namespace ddprun

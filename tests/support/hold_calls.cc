// For LD_PRELOAD: a disk that does not answer, or a thread that stands still. A call that names
// what DDPRUN_HOLD says waits until the FIFO DDPRUN_HOLD_FIFO has a writer; that it waits is seen
// by the file <FIFO>.held.
//
//   mkdir:PART open:PART   a path with PART in it
//   openat:PART            a path with PART in it, and the C++ library's own remove_all
//   close:PART             a file that was opened for writing and has PART in its path
//   execve:ASSIGNMENT      an environment with exactly that
//   program:PART           a program to execute whose path has PART in it
//   getaddrinfo:HOST       a name to look up that is exactly this; only while the FIFO is there
//   pread:PART             a file with PART in its path; only while the FIFO is there
//   write:PART             likewise
//   recv:PART              bytes with PART in them were taken from a socket
//
// And another machine: the file DDPRUN_SHOWN_MOUNTS is opened in place of /proc/self/mountinfo.
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

template <class Function>
Function* Real(const char* name, Function*) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

auto* const real_open = Real("open", static_cast<int (*)(const char*, int, ...)>(nullptr));
auto* const real_openat = Real("openat", static_cast<int (*)(int, const char*, int, ...)>(nullptr));
auto* const real_close = Real("close", &::close);
auto* const real_pread = Real("pread", &::pread);
auto* const real_write = Real("write", &::write);
auto* const real_mkdir = Real("mkdir", &::mkdir);
auto* const real_execve = Real("execve", &::execve);
auto* const real_getaddrinfo = Real("getaddrinfo", &::getaddrinfo);
auto* const real_recv = Real("recv", &::recv);

const std::string held = [] {
  const char* const value = std::getenv("DDPRUN_HOLD");
  return std::string(value == nullptr ? "" : value);
}();
const std::string fifo = [] {
  const char* const value = std::getenv("DDPRUN_HOLD_FIFO");
  return std::string(value == nullptr ? "" : value);
}();
const std::string sign = fifo + ".held";

const std::string shown_mounts = [] {
  const char* const value = std::getenv("DDPRUN_SHOWN_MOUNTS");
  return std::string(value == nullptr ? "" : value);
}();

// The held file of this kind of call; empty: nothing.
std::string_view PartOf(std::string_view kind) {
  const std::string_view text = held;
  return text.starts_with(kind) ? text.substr(kind.size()) : std::string_view();
}

// System calls only: the caller may be a child on shared memory.
void Wait() {
  real_close(real_open(sign.c_str(), O_WRONLY | O_CREAT, 0600));
  real_close(real_open(fifo.c_str(), O_RDONLY));
}

void WaitIfIn(std::string_view kind, const char* path) {
  const std::string_view part = PartOf(kind);
  if (!part.empty() && std::string_view(path).find(part) != std::string_view::npos) {
    Wait();
  }
}

std::string PathOf(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(link.c_str(), path, sizeof path);
  return std::string(path, size > 0 ? static_cast<std::size_t>(size) : 0);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  WaitIfIn("open:", path);
  if (!shown_mounts.empty() && std::string_view(path) == "/proc/self/mountinfo") {
    path = shown_mounts.c_str();
  }
  return real_open(path, flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  WaitIfIn("openat:", path);
  return real_openat(directory, path, flags, mode);
}

int close(int fd) {
  if (!PartOf("close:").empty() && (::fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY) {
    WaitIfIn("close:", PathOf(fd).c_str());
  }
  return real_close(fd);
}

ssize_t pread(int fd, void* bytes, size_t size, off_t at) {
  if (!PartOf("pread:").empty() && ::access(fifo.c_str(), F_OK) == 0) {
    WaitIfIn("pread:", PathOf(fd).c_str());
  }
  return real_pread(fd, bytes, size, at);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  if (!PartOf("write:").empty() && ::access(fifo.c_str(), F_OK) == 0) {
    WaitIfIn("write:", PathOf(fd).c_str());
  }
  return real_write(fd, bytes, size);
}

ssize_t pread64(int fd, void* bytes, size_t size, off_t at) {
  return pread(fd, bytes, size, at);
}

int mkdir(const char* path, mode_t mode) noexcept {
  WaitIfIn("mkdir:", path);
  return real_mkdir(path, mode);
}

int execve(const char* path, char* const* argv, char* const* environment) noexcept {
  WaitIfIn("program:", path);
  const std::string_view part = PartOf("execve:");
  for (char* const* entry = environment; !part.empty() && *entry != nullptr; ++entry) {
    if (part == *entry) {
      Wait();
    }
  }
  return real_execve(path, argv, environment);
}

int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  const std::string_view name = PartOf("getaddrinfo:");
  if (!name.empty() && host != nullptr && name == host && ::access(fifo.c_str(), F_OK) == 0) {
    Wait();
  }
  return real_getaddrinfo(host, service, hints, found);
}

ssize_t recv(int socket, void* bytes, size_t size, int flags) {
  const ssize_t got = real_recv(socket, bytes, size, flags);
  const std::string_view part = PartOf("recv:");
  if (got > 0 && (flags & MSG_PEEK) == 0 && !part.empty() &&
      std::string_view(static_cast<const char*>(bytes), got).find(part) != std::string_view::npos) {
    Wait();
  }
  return got;
}

}  // extern "C"

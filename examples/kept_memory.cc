// The same in C++, with nothing but POSIX: g++ -std=c++17 kept_memory.cc
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

void* Map(int file) {
  struct stat info {};
  ::fstat(file, &info);
  return ::mmap(nullptr, info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

// What the last process left under this name, or nullptr.
void* Find(const std::string& name) {
  const char* const pid = std::getenv("LISTEN_PID");
  const bool own = pid != nullptr && pid == std::to_string(::getpid());
  std::istringstream names(own ? std::getenv("LISTEN_FDNAMES") : "");
  std::string next;
  for (int file = 3; std::getline(names, next, ':'); ++file) {
    if (next == name) {
      return Map(file);
    }
  }
  return nullptr;
}

// New memory: what is in it when this process dies is left, in place of what had the name.
void* Leave(const std::string& name, std::size_t size) {
  const int file = ::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  (void)!::ftruncate(file, size);
  ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  const char* const path = std::getenv("DDPRUN_NOTIFY_SOCKET");
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path != nullptr && std::strlen(path) < sizeof to.sun_path) {
    std::strcpy(to.sun_path, path);
    std::string text = "FDSTORE=1\nFDNAME=" + name;
    iovec part{text.data(), text.size()};
    alignas(cmsghdr) char beside[CMSG_SPACE(sizeof file)] = {};
    msghdr message{&to, sizeof to, &part, 1, beside, sizeof beside, 0};
    *CMSG_FIRSTHDR(&message) = {CMSG_LEN(sizeof file), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &file, sizeof file);
    const int agent = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)!::sendmsg(agent, &message, MSG_NOSIGNAL);
    ::close(agent);
  }
  return Map(file);
}

int main() {
  void* const found = Find("counter");
  const auto count = static_cast<std::uint64_t*>(found != nullptr ? found : Leave("counter", 8));
  std::printf("run %d\n", static_cast<int>(++*count));
  std::fflush(stdout);
  const char* const runs = std::getenv("RUNS");
  std::_Exit(static_cast<int>(*count) >= (runs == nullptr ? 3 : std::atoi(runs)) ? 0 : 1);
}

#include "proto/kept_preload_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

#include "proto/memory_block.h"
#include "proto/preload_process.h"

namespace ddprun {
namespace {

constexpr int kMostWaitMs = 10'000;  // Between two looks at the socket's name.
constexpr int kClientMs = 200;       // For a client to say what it wants.
constexpr char kOomScore[] = "/proc/self/oom_score_adj";

struct Socket {
  int listener = -1;
  sockaddr_un name = {};
  ino_t inode = 0;

  bool IsNamed() const {
    struct stat found {};
    return ::lstat(name.sun_path, &found) == 0 && S_ISSOCK(found.st_mode) && found.st_ino == inode;
  }
};

// A launch that was asked for.
struct Launch {
  int connection = -1;
  int stdio[3] = {-1, -1, -1};
  char* text = nullptr;  // All words of the following.
  char** file = nullptr;
  char** arguments = nullptr;
  char** environment = nullptr;
  char** agents_environment = nullptr;
  int link[2] = {-1, -1};    // The guard's end, the agent's.
  int socket[2] = {-1, -1};  // The agent's end, the preload process's.
  int plan = -1;
  char oom_score[16] = {};
  char guard_variable[64] = {};
  char agent_variable[64] = {};
};

long NowMs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

void WriteText(const char* file, const char* text) {
  const int fd = ::open(file, O_WRONLY | O_CLOEXEC);
  (void)!::write(fd, text, ::strlen(text));
  ::close(fd);
}

void ReadText(const char* file, char* text, size_t room) {
  const int fd = ::open(file, O_RDONLY | O_CLOEXEC);
  const ssize_t got = ::read(fd, text, room - 1);
  text[got > 0 ? got : 0] = '\0';
  ::close(fd);
}

void AwaitEnd(pid_t parent) {
  if (::getppid() != parent) {
    return;
  }
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, parent, 0));
  while (fd >= 0 && ::getppid() == parent) {
    pollfd end{fd, POLLIN, 0};
    ::poll(&end, 1, kMostWaitMs);
  }
  ::close(fd);
}

// The first run's terminal, pipes and session are not this process's any more. Its session changes
// only once the agent is dead, because an agent ends what is in another session than its own. The
// next run begins once the guard is dead, because a guard ends what comes to it.
bool Leave(const KeepOrder& order) {
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int target = 0; target < 3; ++target) {
    ::dup2(nowhere, target);
  }
  ::close(nowhere);
  AwaitEnd(order.agent_pid);
  const bool left = ::setsid() > 0;
  AwaitEnd(order.guard_pid);
  return left;
}

bool IsOwnUser(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::getuid();
}

// All of the descriptors, or none.
bool Receive(int connection, KeptRequest& request, int (&descriptors)[kLaunchDescriptors]) {
  pollfd there{connection, POLLIN, 0};
  if (::poll(&there, 1, kClientMs) != 1) {
    return false;
  }
  iovec part{&request, sizeof request};
  alignas(cmsghdr) char control[CMSG_SPACE(kLaunchDescriptors * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  int count = 0;
  if (got > 0 && head != nullptr && head->cmsg_type == SCM_RIGHTS) {
    count = static_cast<int>((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    ::memcpy(descriptors, CMSG_DATA(head), static_cast<size_t>(count) * sizeof(int));
  }
  if (got == sizeof request && (count == 0 || count == kLaunchDescriptors)) {
    return true;
  }
  for (int i = 0; i < count; ++i) {
    ::close(descriptors[i]);
    descriptors[i] = -1;
  }
  return false;
}

bool Reply(int connection, const char* remark, long until, int file) {
  const long left = until - NowMs();
  KeptReply reply{.pid = ::getpid(), .left_ms = static_cast<std::uint32_t>(left > 0 ? left : 0)};
  ::strncpy(reply.remark, remark, sizeof reply.remark - 1);
  iovec part{&reply, sizeof reply};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    ::memcpy(CMSG_DATA(head), &file, sizeof file);
  }
  return ::sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof reply;
}

bool HasGone(int connection) {
  pollfd end{connection, POLLRDHUP, 0};
  return ::poll(&end, 1, 0) != 0;
}

// Words up to an empty one, as execve takes them; `at` is then behind that.
char** TakeWords(char*& at, const char* end) {
  size_t count = 0;
  for (const char* word = at; word < end && *word != '\0'; word += ::strlen(word) + 1) {
    ++count;
  }
  char** const words = static_cast<char**>(::calloc(count + 1, sizeof(char*)));
  for (size_t i = 0; words != nullptr && i < count; ++i) {
    words[i] = at;
    at += ::strlen(at) + 1;
  }
  ++at;
  return words;
}

char** WithOneMore(char** words, char* more) {
  size_t count = 0;
  while (words[count] != nullptr) {
    ++count;
  }
  char** const longer = static_cast<char**>(::calloc(count + 2, sizeof(char*)));
  if (longer != nullptr) {
    ::memcpy(longer, words, count * sizeof(char*));
    longer[count] = more;
  }
  return longer;
}

bool TakeLaunch(int file, Launch& launch) {
  struct stat info {};
  if (::fstat(file, &info) != 0 || info.st_size < 4 || info.st_size > kMostLaunchBytes) {
    return false;
  }
  const size_t size = static_cast<size_t>(info.st_size);
  launch.text = static_cast<char*>(::malloc(size + 3));
  if (launch.text == nullptr || ::pread(file, launch.text, size, 0) != info.st_size) {
    return false;
  }
  ::memset(launch.text + size, 0, 3);  // Parts that are missing end here.
  char* at = launch.text;
  const char* const end = launch.text + size;
  launch.file = TakeWords(at, end);
  launch.arguments = at < end ? TakeWords(at, end) : nullptr;
  char** const environment = at < end ? TakeWords(at, end) : nullptr;
  if (launch.file == nullptr || launch.file[0] == nullptr || launch.arguments == nullptr ||
      launch.arguments[0] == nullptr || environment == nullptr) {
    return false;
  }
  launch.environment = WithOneMore(environment, launch.guard_variable);
  launch.agents_environment = WithOneMore(environment, launch.agent_variable);
  ::free(environment);
  return launch.environment != nullptr && launch.agents_environment != nullptr &&
         ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, launch.link) == 0 &&
         ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, launch.socket) == 0;
}

void Forget(Launch& launch) {
  for (char*** const words :
       {&launch.file, &launch.arguments, &launch.environment, &launch.agents_environment}) {
    ::free(*words);
    *words = nullptr;
  }
  ::free(launch.text);
  launch.text = nullptr;
}

// In a child that shares this memory, but neither descriptors nor signal handlers.
[[noreturn]] void Execute(const Launch& launch, char** environment, const int (&kept)[3]) {
  constexpr unsigned kCloseOnExec = 4;  // CLOSE_RANGE_CLOEXEC
  if (::syscall(SYS_close_range, 3U, ~0U, kCloseOnExec) != 0) {
    for (int fd = 3; fd < 4096; ++fd) {
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
  }
  for (const int fd : kept) {
    ::fcntl(fd, F_SETFD, 0);
  }
  for (int target = 0; target < 3; ++target) {
    ::dup2(launch.stdio[target], target);
  }
  for (int signal = 1; signal < NSIG; ++signal) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  WriteText(kOomScore, launch.oom_score);
  ::execve(launch.file[0], launch.arguments, environment);
  ::_exit(127);
}

// A function of its own, and small: the children of vfork run on this frame's stack. 0 in the
// preload process of the new run.
__attribute__((noinline)) pid_t Begin(Launch& launch) {
  // NOLINTBEGIN(clang-analyzer-*): no other code uses what its children change here.
  const pid_t guard = ::vfork();
  if (guard == 0) {
    ::setsid();
    const pid_t agent = ::vfork();
    if (agent == 0) {
      const pid_t preload = ::fork();  // It gets its own memory.
      if (preload == 0) {
        return 0;
      }
      ::snprintf(launch.agent_variable, sizeof launch.agent_variable, "%s=agent %d %d %d %d",
                 kKeptVariable, launch.link[1], preload, launch.socket[0], launch.plan);
      Execute(launch, launch.agents_environment, {launch.link[1], launch.socket[0], launch.plan});
    }
    ::snprintf(launch.guard_variable, sizeof launch.guard_variable, "%s=guard %d %d %d",
               kKeptVariable, launch.link[0], launch.connection, agent);
    Execute(launch, launch.environment, {launch.link[0], launch.connection, launch.link[0]});
  }
  // NOLINTEND(clang-analyzer-*)
  return guard;
}

// The new run's preload process: as one that its agent has started itself.
int BecomeNext(Launch& launch, const Socket& socket) {
  Forget(launch);
  WriteText(kOomScore, launch.oom_score);
  for (const int fd : {socket.listener, launch.plan, launch.connection, launch.link[0],
                       launch.link[1], launch.socket[0]}) {
    ::close(fd);
  }
  for (const int fd : launch.stdio) {
    ::close(fd);
  }
  const int own = ::fcntl(launch.socket[1], F_DUPFD_CLOEXEC, kAboveBlocks);
  ::close(launch.socket[1]);
  return own;
}

}  // namespace
}  // namespace ddprun

int ddprun_preload_keep(int agent, const char* remark) {
  using namespace ddprun;
  const KeepOrder order = TakeKeepOrder();
  const long until = NowMs() + static_cast<long>(order.idle_ms);
  Socket socket{.listener = order.listener};
  socklen_t size = sizeof socket.name;
  struct stat named {};
  if (!Leave(order) ||
      ::getsockname(order.listener, reinterpret_cast<sockaddr*>(&socket.name), &size) != 0 ||
      ::lstat(socket.name.sun_path, &named) != 0) {
    ::_exit(0);
  }
  ::close(agent);
  socket.inode = named.st_ino;
  Launch launch{.plan = order.plan};
  ReadText(kOomScore, launch.oom_score, sizeof launch.oom_score);
  WriteText(kOomScore, "1000");  // If memory runs out, this process goes first.
  while (true) {
    const long left = until - NowMs();
    pollfd there{socket.listener, POLLIN, 0};
    ::poll(&there, 1, static_cast<int>(left < 0 ? 0 : left < kMostWaitMs ? left : kMostWaitMs));
    if (!socket.IsNamed()) {
      ::_exit(0);
    }
    launch.connection =
        ::accept4(socket.listener, nullptr, nullptr, SOCK_CLOEXEC);  // It does not block: below.
    KeptRequest request{};
    int received[kLaunchDescriptors] = {-1, -1, -1, -1};
    const bool heard = launch.connection >= 0 && IsOwnUser(launch.connection) &&
                       Receive(launch.connection, request, received);
    if (heard && request == KeptRequest::kState) {
      Reply(launch.connection, remark, until, order.plan);
    }
    const bool launches = heard && request == KeptRequest::kLaunch && received[3] >= 0 &&
                          !HasGone(launch.connection) && TakeLaunch(received[3], launch) &&
                          Reply(launch.connection, remark, until, -1);
    if (launches || (heard && request == KeptRequest::kEnd) ||
        (launch.connection < 0 && NowMs() >= until)) {
      ::unlink(socket.name.sun_path);
      if (!launches) {
        ::_exit(0);
      }
      ::memcpy(launch.stdio, received, sizeof launch.stdio);
      ::close(received[3]);
      sigset_t all;
      sigset_t before;
      ::sigfillset(&all);
      ::sigprocmask(SIG_SETMASK, &all, &before);
      if (Begin(launch) != 0) {
        ::_exit(0);
      }
      ::sigprocmask(SIG_SETMASK, &before, nullptr);
      return BecomeNext(launch, socket);
    }
    Forget(launch);
    for (const int fd : received) {
      ::close(fd);
    }
    ::close(launch.connection);
  }
}

#include "proto/preload_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "proto/kept_preload_process.h"
#include "proto/life_lock.h"
#include "proto/own_process.h"
#include "proto/preload_protocol.h"
#include "proto/shown_environment.h"

// The note by which an agent knows, from the program's file, that it can be a preload process.
__asm__(
    ".pushsection .note.ddprun.preload,\"a\",%note\n"
    ".balign 4\n"
    ".long 7, 4, 0x7470\n"
    ".asciz \"ddprun\"\n"
    ".balign 4\n"
    ".long 5\n"
    ".popsection\n");

namespace ddprun {
namespace {

static_assert(kPreloadNoteType == 0x7470 && kPreloadVersion == 5);

// The last request. A worker is a fork of this process, so it finds its request here.
struct Request {
  std::uint32_t sequence = 0;
  std::uint32_t keep_ms = 0;
  pid_t agent = 0;
  pid_t guard = 0;
  int count = 0;
  int descriptors[kPreloadDescriptors + kMostBlocks] = {};
  int blocks() const { return count - kPreloadDescriptors; }
  int line() const { return descriptors[3]; }
  int image() const { return descriptors[4]; }
} request;

// The file that holds the descriptor numbers of memory blocks (preload_protocol.h).
struct stat place {};

// Written by a worker, read by the preload process: the only memory that they share.
char* remark = nullptr;
constexpr size_t kRemarkBytes = 200;

// The preload process's own, which a worker shows again.
ShownTexts arguments;

// The worker's own. Empty: those of the preload process.
struct {
  const char* begin = nullptr;
  const char* end = nullptr;
} program_arguments;

// Written by the process between preload process and worker, which shares this memory (vfork).
volatile pid_t forked = -1;
volatile int fork_error = 0;

bool Send(int socket, const PreloadReply& reply) {
  return ::send(socket, &reply, sizeof reply, MSG_NOSIGNAL) == sizeof reply;
}

PreloadReply Refusal(const char* why) {
  PreloadReply reply{.word = PreloadWord::kRefuses, .sequence = request.sequence};
  ::strncpy(reply.text, why, sizeof reply.text - 1);
  return reply;
}

void CloseRequest() {
  for (int i = 0; i < request.count; ++i) {
    ::close(request.descriptors[i]);
  }
  request.count = 0;
}

// Whether the descriptor numbers of memory blocks are still reserved. All others are above them.
bool HoldsPlaces() {
  for (int i = kFirstBlock; i < kAboveBlocks; ++i) {
    struct stat found {};
    if (::fstat(i, &found) != 0 || found.st_dev != place.st_dev || found.st_ino != place.st_ino) {
      return false;
    }
  }
  return true;
}

// In the worker, when it cannot be set up: tells the agent, which starts it from its file.
[[noreturn]] void Fail(const char* step, int error) {
  PreloadReply reply{.word = PreloadWord::kForked,
                     .sequence = request.sequence,
                     .pid = ::getpid(),
                     .error = error};
  ::strncpy(reply.text, step, sizeof reply.text - 1);
  Send(request.line(), reply);
  ::_exit(127);
}

// Puts the memory blocks in their places and closes the other places, as worker_launcher does.
void TakeBlocks() {
  for (int i = 0; i < kMostBlocks; ++i) {
    if (i >= request.blocks()) {
      ::close(kFirstBlock + i);
    } else if (::dup2(request.descriptors[kPreloadDescriptors + i], kFirstBlock + i) < 0) {
      Fail("hand memory on to", errno);
    }
  }
}

// Waits until the agent is the parent. The process between is it until it ends, and with
// PDEATHSIG its end would kill the worker.
void WaitForAgent(pid_t agent) {
  pollfd line{request.line(), POLLIN, 0};
  for (int tries = 0; ::getppid() != agent; ++tries) {
    timespec moment{0, tries < 20 ? 20'000 : 1'000'000};
    if (tries > 2'000 || ::ppoll(&line, 1, &moment, nullptr) > 0) {
      Fail("be adopted by its agent", ESRCH);
    }
  }
}

// The parts of the image. Their sizes add up to the size of the file.
struct Image {
  WorkerImage head;
  char* cpus = nullptr;
  char* environment = nullptr;
  char* directory = nullptr;
  char* arguments = nullptr;
  char* end = nullptr;
};

Image MapImage() {
  struct stat info {};
  if (::fstat(request.image(), &info) != 0 ||
      info.st_size < static_cast<off_t>(sizeof(WorkerImage))) {
    Fail("read what the agent wants of", errno != 0 ? errno : EINVAL);
  }
  // Not a mapping of the file: /proc/PID/environ shows only anonymous memory.
  const size_t size = static_cast<size_t>(info.st_size);
  void* const mapped =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED || ::pread(request.image(), mapped, size, 0) != info.st_size) {
    Fail("read what the agent wants of", errno);
  }
  Image image;
  ::memcpy(&image.head, mapped, sizeof image.head);
  const off_t sum = static_cast<off_t>(sizeof image.head) + image.head.cpu_bytes +
                    image.head.environment_bytes + image.head.directory_bytes +
                    image.head.argument_bytes;
  if (sum != info.st_size) {
    Fail("read what the agent wants of", EINVAL);
  }
  image.cpus = static_cast<char*>(mapped) + sizeof image.head;
  image.environment = image.cpus + image.head.cpu_bytes;
  image.directory = image.environment + image.head.environment_bytes;
  image.arguments = image.directory + image.head.directory_bytes;
  image.end = image.arguments + image.head.argument_bytes;
  return image;
}

char** EnvironmentOf(const Image& image) {
  const size_t bytes = (image.head.environment_count + 1) * sizeof(char*);
  void* const made =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) {
    Fail("make the environment of", errno);
  }
  char** const entries = static_cast<char**>(made);
  char* at = image.environment;
  for (std::uint32_t i = 0; i < image.head.environment_count; ++i) {
    if (at >= image.directory) {
      Fail("read the environment of", EINVAL);
    }
    entries[i] = at;
    if (i + 1 == image.head.environment_count && ::strncmp(at, "LISTEN_PID=", 11) == 0) {
      ::snprintf(at, static_cast<size_t>(image.directory - at), "LISTEN_PID=%d", ::getpid());
    }
    at += ::strnlen(at, static_cast<size_t>(image.directory - at)) + 1;
  }
  return entries;
}

void BecomeWorker(const Image& image) {
  if (::setsid() < 0) {
    Fail("start a session for", errno);
  }
  WaitForAgent(image.head.agent);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    Fail("tie to its agent", errno);
  }
  if (::getppid() != image.head.agent) {
    Fail("be adopted by its agent", ESRCH);
  }
  if (image.head.cpu_bytes > 0 &&
      ::syscall(SYS_sched_setaffinity, 0, image.head.cpu_bytes, image.cpus) != 0) {
    Fail("bind to its CPUs", errno);
  }
  for (int target = 0; target < 3; ++target) {
    if (::dup2(request.descriptors[target], target) < 0) {
      Fail("connect the output of", errno);
    }
  }
  TakeBlocks();
  if (image.head.directory_bytes > 0 && ::chdir(image.directory) != 0) {
    Fail("enter the working directory of", errno);
  }
}

void AwaitGo() {
  PreloadReply reply{.word = PreloadWord::kForked, .sequence = request.sequence, .pid = ::getpid()};
  char go = 0;
  ssize_t got = -1;
  if (Send(request.line(), reply)) {
    do {
      got = ::recv(request.line(), &go, 1, 0);
    } while (got < 0 && errno == EINTR);
  }
  if (got != 1) {
    ::_exit(127);
  }
}

// A function of its own, and small: the child of vfork runs on this frame's stack.
__attribute__((noinline)) pid_t ForkAdopted() {
  forked = -1;
  fork_error = 0;
  // NOLINTNEXTLINE(clang-analyzer-*): no other code uses what its child changes here.
  const pid_t between = ::vfork();
  if (between == 0) {
    const pid_t worker = ::fork();  // NOLINT(clang-analyzer-unix.Vfork): so that it is adopted.
    if (worker == 0) {
      return 0;
    }
    forked = worker;
    fork_error = worker < 0 ? errno : 0;
    ::_exit(0);
  }
  if (between < 0) {
    fork_error = errno;
    return -1;
  }
  int status = 0;
  while (::waitpid(between, &status, 0) < 0 && errno == EINTR) {
  }
  return forked;
}

}  // namespace

KeepOrder TakeKeepOrder() {
  request.count = 0;
  return {.agent_pid = request.agent,
          .guard_pid = request.guard,
          .listener = request.descriptors[0],
          .plan = request.descriptors[1],
          .idle_ms = request.keep_ms};
}

}  // namespace ddprun

using ddprun::request;

extern "C" {

int ddprun_preload_open(void) {
  const char* const text = ::getenv(ddprun::kPreloadVariable);
  if (text == nullptr) {
    return -1;
  }
  const int socket = ::atoi(text);
  ::unsetenv(ddprun::kPreloadVariable);
  int type = 0;
  socklen_t size = sizeof type;
  const bool ours = socket > 2 && ::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
                    type == SOCK_SEQPACKET && ::fstat(ddprun::kFirstBlock, &ddprun::place) == 0;
  for (int i = 0; ours && i < ddprun::kMostBlocks; ++i) {
    ::fcntl(ddprun::kFirstBlock + i, F_SETFD, FD_CLOEXEC);
  }
  void* const shared = ::mmap(nullptr, ddprun::kRemarkBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!ours || shared == MAP_FAILED || ::fcntl(socket, F_SETFD, FD_CLOEXEC) != 0) {
    return -1;
  }
  ddprun::remark = static_cast<char*>(shared);
  return socket;
}

void ddprun_preload_rename(void) {
  constexpr char kName[] = "ddprun: preload process";
  void* const place =
      ::mmap(nullptr, sizeof kName, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place != MAP_FAILED) {
    char* const name = static_cast<char*>(place);
    ::memcpy(name, kName, sizeof kName);
    ddprun::arguments = ddprun::Show(ddprun::TextsIn(name, name + sizeof kName), {});
  }
}

void ddprun_preload_refuse(int socket, const char* why) {
  ddprun::Send(socket, ddprun::Refusal(why));
}

void ddprun_preload_retire(const char* why) {
  ::strncpy(ddprun::remark, why, ddprun::kRemarkBytes - 1);
}

int ddprun_preload_retired(int socket) {
  if (ddprun::remark[0] == '\0') {
    return 0;
  }
  ddprun::PreloadReply reply = ddprun::Refusal(ddprun::remark);
  reply.error = ECANCELED;
  ddprun::Send(socket, reply);
  return 1;
}

void ddprun_preload_rehearse(void) {
  const pid_t rehearsal = ::fork();
  if (rehearsal == 0) {
    ::_exit(0);
  }
  if (rehearsal > 0) {
    ::waitpid(rehearsal, nullptr, 0);
  }
}

int ddprun_preload_ready(int socket, const char* remark) {
  char names[120] = {};
  const int threads = ddprun::CountIn("/proc/self/task", [&](DIR* dir, const char* thread) {
    ddprun::AddThreadName(dir, thread, names, sizeof names);
    return true;
  });
  const int gpus = ddprun::CountIn("/proc/self/fd", ddprun::IsGpu);
  char why[220] = {};
  if (threads != 1) {
    ::snprintf(why, sizeof why,
               "%d threads run once it is loaded, and a fork would lose all but one%s%s", threads,
               names[0] != '\0' ? ": " : "", names);
  } else if (gpus > 0) {
    ::snprintf(why, sizeof why, "it has opened a GPU, which a fork cannot use");
  } else if (!ddprun::HoldsPlaces()) {
    ::snprintf(why, sizeof why, "it has closed descriptors that it was started with");
  }
  if (why[0] != '\0') {
    ddprun_preload_refuse(socket, why);
    return -1;
  }
  ddprun::PreloadReply reply{.word = ddprun::PreloadWord::kReady, .pid = ::getpid()};
  ::strncpy(reply.text, remark, sizeof reply.text - 1);
  // The agent may have ended, and have left an order to stay (--keep-warm).
  return ddprun::Send(socket, reply) || errno == EPIPE ? 0 : -1;
}

int ddprun_preload_wait(int socket) {
  ddprun::PreloadRequest wanted;
  iovec part{&wanted, sizeof wanted};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof request.descriptors)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof wanted || wanted.version != ddprun::kPreloadVersion) {
    return 0;
  }
  request.sequence = wanted.sequence;
  request.keep_ms = wanted.keep_ms;
  request.agent = wanted.agent;
  request.guard = wanted.guard;
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  const size_t count =
      wanted.keep_ms > 0 ? ddprun::kKeepDescriptors : ddprun::kPreloadDescriptors + wanted.blocks;
  if (wanted.blocks > ddprun::kMostBlocks || head == nullptr || head->cmsg_type != SCM_RIGHTS ||
      head->cmsg_len != CMSG_LEN(count * sizeof(int))) {
    return 0;
  }
  ::memcpy(request.descriptors, CMSG_DATA(head), count * sizeof(int));
  request.count = static_cast<int>(count);
  for (size_t i = 0; i < count; ++i) {  // An import may have closed one of 0, 1 and 2.
    const int received = request.descriptors[i];
    request.descriptors[i] = ::fcntl(received, F_DUPFD_CLOEXEC, ddprun::kAboveBlocks);
    ::close(received);
  }
  return wanted.keep_ms > 0 ? 2 : 1;
}

int ddprun_preload_fork(int socket) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t worker = ddprun::ForkAdopted();
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (worker == 0) {
    ::close(socket);
    return 0;
  }
  ddprun::CloseRequest();
  ddprun::PreloadReply reply{.word = ddprun::PreloadWord::kForked,
                             .sequence = request.sequence,
                             .pid = worker,
                             .error = ddprun::fork_error};
  ::strncpy(reply.text, worker < 0 ? "fork" : "", sizeof reply.text - 1);
  ddprun::Send(socket, reply);
  return worker;
}

char** ddprun_preload_begin(void) {
  const ddprun::Image image = ddprun::MapImage();
  char** const environment = ddprun::EnvironmentOf(image);
  ddprun::BecomeWorker(image);
  ddprun::AwaitGo();
  ddprun::CloseRequest();
  ddprun::program_arguments = {image.arguments, image.end};
  const bool given = image.head.argument_bytes > 0;
  ddprun::Show(given ? ddprun::TextsIn(image.arguments, image.end) : ddprun::arguments,
               ddprun::TextsIn(image.environment, image.directory));
  environ = environment;
  ddprun::TakeLifeLock();
  return environment;
}

const char* ddprun_preload_arguments(size_t* size) {
  const auto& all = ddprun::program_arguments;
  *size = static_cast<size_t>(all.end - all.begin);
  return all.begin;
}

void ddprun_preload_serve(int socket) {
  ddprun_preload_rename();
  ddprun_preload_rehearse();
  if (ddprun_preload_ready(socket, "") != 0) {
    ::_exit(0);
  }
  while (ddprun_preload_wait(socket) == 1) {
    if (ddprun_preload_fork(socket) == 0) {
      ddprun_preload_begin();
      return;
    }
  }
  ::_exit(0);
}
}

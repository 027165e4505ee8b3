// A preload process that does as its first argument says: an honest one, which runs `sh -c
// ARGUMENT` as its workers, or one that breaks proto/preload_protocol.h in one way.
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "proto/preload_process.h"
#include "proto/preload_protocol.h"

namespace {

using ddprun::PreloadReply;
using ddprun::PreloadRequest;
using ddprun::PreloadWord;

void Say(int socket, const PreloadReply& reply) {
  ::send(socket, &reply, sizeof reply, MSG_NOSIGNAL);
}

[[noreturn]] void Stay() {
  while (true) {
    ::pause();
  }
}

// Answers the first request with `reply`, whose sequence is filled in.
[[noreturn]] void Answer(int socket, PreloadReply reply) {
  Say(socket, {});
  PreloadRequest request;
  if (::recv(socket, &request, sizeof request, 0) == sizeof request) {
    reply.sequence = request.sequence;
    Say(socket, reply);
  }
  Stay();
}

// The first answer comes with the second request.
int ComeLate(int socket, const char* text) {
  Say(socket, {});
  PreloadRequest first;
  char control[256];
  iovec part{&first, sizeof first};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ::recvmsg(socket, &message, 0);
  for (int fd = 3; fd < 64; ++fd) {  // The descriptors that came with it.
    if (fd != socket) {
      ::close(fd);
    }
  }
  pollfd second{socket, POLLIN, 0};
  ::poll(&second, 1, -1);
  Say(socket, {.word = PreloadWord::kForked, .sequence = first.sequence, .pid = -1, .error = 11});
  while (ddprun_preload_wait(socket) == 1) {
    if (ddprun_preload_fork(socket) == 0) {
      ddprun_preload_begin();
      ::execl("/bin/sh", "sh", "-c", text, nullptr);
      ::_exit(127);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  const char* const text = argc > 2 ? argv[2] : "true";
  const int socket = ddprun_preload_open();
  if (how == "honest") {
    if (socket >= 0) {
      ddprun_preload_serve(socket);
    }
    ::execl("/bin/sh", "sh", "-c", text, nullptr);
    return 127;
  }
  if (how == "silent") {
    Stay();
  }
  if (how == "ends") {
    return 3;
  }
  if (how == "version") {
    Say(socket, {.version = ddprun::kPreloadVersion + 1});
    Stay();
  }
  if (how == "short") {
    ::send(socket, "abc", 3, 0);
    Stay();
  }
  if (how == "refuses") {  // And its text does not end.
    PreloadReply reply{.word = PreloadWord::kRefuses};
    ::memset(reply.text, 'x', sizeof reply.text);
    Say(socket, reply);
    Stay();
  }
  if (how == "cannot-fork") {
    Answer(socket, {.word = PreloadWord::kForked, .pid = -1, .error = 11});
  }
  if (how == "names-other") {
    Answer(socket, {.word = PreloadWord::kForked, .pid = 1});
  }
  if (how == "names-agent") {
    Answer(socket, {.word = PreloadWord::kForked, .pid = ::getppid()});
  }
  if (how == "names-itself") {
    Answer(socket, {.word = PreloadWord::kForked, .pid = ::getpid()});
  }
  if (how == "ready-never-forks") {
    Say(socket, {});
    Stay();
  }
  if (how == "late") {
    return ComeLate(socket, text);
  }
  ::fprintf(stderr, "fake_preload: unknown: '%s'\n", how.c_str());
  return 2;
}

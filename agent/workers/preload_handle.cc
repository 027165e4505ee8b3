#include "agent/workers/preload_handle.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "common/files.h"
#include "proto/preload_protocol.h"

namespace ddprun {
namespace {

Result<std::pair<UniqueFd, UniqueFd>> Line() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError("make", "a socket to a preload process", errno);
  }
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

// Puts files that no other process has in the places of blocks (proto/preload_protocol.h).
Result<std::vector<MemoryBlock>> Places() {
  const UniqueFd file(::memfd_create("ddprun-place", MFD_CLOEXEC));
  auto place = std::make_shared<UniqueFd>(::fcntl(file.get(), F_DUPFD_CLOEXEC, kAboveBlocks));
  if (!*place) {
    return SystemError("make", "a memory file for a preload process", errno);
  }
  return std::vector<MemoryBlock>(kMostBlocks, {"", std::move(place)});
}

Result<UniqueFd> ImageOf(const WorkerSpec& spec, const std::vector<std::string>& command_line) {
  WorkerImage head{.agent = ::getpid()};
  const std::vector<unsigned long> mask = MaskOf(spec.cpus);
  const std::string cpus(reinterpret_cast<const char*>(mask.data()),
                         mask.size() * sizeof(unsigned long));
  std::string environment;
  for (const auto& [name, value] : spec.environment) {
    environment += name + "=" + value + '\0';
  }
  const std::string directory = spec.directory.empty() ? "" : spec.directory.native() + '\0';
  std::string arguments;
  for (const std::string& word : command_line) {
    arguments += word + '\0';
  }
  std::size_t count = spec.environment.size();
  if (spec.environment.contains("LISTEN_FDS")) {
    environment += "LISTEN_PID=" + std::string(kPidRoom, '\0');
    ++count;
  }
  head.cpu_bytes = static_cast<std::uint32_t>(cpus.size());
  head.environment_bytes = static_cast<std::uint32_t>(environment.size());
  head.environment_count = static_cast<std::uint32_t>(count);
  head.directory_bytes = static_cast<std::uint32_t>(directory.size());
  head.argument_bytes = static_cast<std::uint32_t>(arguments.size());
  return MemoryFile("ddprun-worker",
                    std::string(reinterpret_cast<const char*>(&head), sizeof head) + cpus +
                        environment + directory + arguments);
}

bool IsLivingChild(pid_t pid) {
  siginfo_t child{};
  return pid > 0 &&
         ::waitid(P_PID, static_cast<id_t>(pid), &child, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

Result<std::shared_ptr<PreloadHandle>> PreloadHandle::Start(WorkerSpec spec,
                                                            const ChildStdio& stdio) {
  ASSIGN_OR_RETURN(auto ends, Line());
  const UniqueFd own(::fcntl(ends.second.get(), F_DUPFD_CLOEXEC, kAboveBlocks));
  if (!own) {
    return SystemError("make", "a socket to a preload process", errno);
  }
  ends.second.Reset();
  ASSIGN_OR_RETURN(spec.blocks, Places());
  spec.helper = true;
  spec.environment[kPreloadVariable] = std::to_string(own.get());
  spec.kept.push_back(own.get());
  ASSIGN_OR_RETURN(LaunchedWorker process, LaunchWorker(spec, stdio));
  return std::shared_ptr<PreloadHandle>(
      new PreloadHandle(std::move(process), std::move(ends.first)));
}

std::shared_ptr<PreloadHandle> PreloadHandle::Take(GivenPreload given) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, given.pid, 0)));
  return std::shared_ptr<PreloadHandle>(
      new PreloadHandle({given.pid, std::move(pidfd)}, std::move(given.socket)));
}

Result<pid_t> PreloadHandle::Keep(int listener, int plan, Duration idle) {
  const PreloadRequest order{
      .keep_ms = static_cast<std::uint32_t>(std::min<Duration::rep>(idle.count(), UINT32_MAX)),
      .agent = ::getpid(),
      .guard = ::getppid()};
  const std::array<int, kKeepDescriptors> descriptors = {listener, plan};
  const std::lock_guard lock(mutex_);
  if (pid_ == 0) {
    return Error{ErrorKind::kUnavailable, "it has ended"};
  }
  if (!SendWithDescriptors(socket_.get(), {reinterpret_cast<const char*>(&order), sizeof order},
                           descriptors, MSG_DONTWAIT)) {
    return SystemError("keep", "the preload process", errno);
  }
  ready_ = false;
  return std::exchange(pid_, 0);
}

PreloadHandle::~PreloadHandle() {
  MarkGone("");
}

bool PreloadHandle::gone() const {
  const std::lock_guard lock(mutex_);
  return pid_ == 0;
}

void PreloadHandle::End() {
  const std::lock_guard lock(mutex_);
  if (pid_ != 0) {
    ::kill(pid_, SIGKILL);
  }
}

void PreloadHandle::LookWhetherItLives() {
  pollfd end{pidfd_.get(), POLLIN, 0};
  if (::poll(&end, 1, 0) == 1) {
    MarkGone("");
  }
}

Error PreloadHandle::MarkGone(std::string why) {
  End();
  pollfd end{pidfd_.get(), POLLIN, 0};
  ::poll(&end, 1, static_cast<int>(kPatience.count()));
  const std::lock_guard lock(mutex_);
  if (pid_ != 0) {
    ::waitpid(std::exchange(pid_, 0), nullptr, WNOHANG);
  }
  ready_ = false;
  return {ErrorKind::kUnavailable, std::move(why)};
}

// `verified`: the kernel says who sent it, and that is whom it names.
Result<PreloadReply> PreloadHandle::Receive(int socket, Duration limit,
                                            const LaunchUnderWay& under_way, bool verified) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd waits[2] = {{socket, POLLIN, 0}, {under_way.wake(), POLLIN, 0}};
    const int woken = ::poll(waits, 2, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (woken == 0) {
      return Error{ErrorKind::kRefused,
                   "it did not answer within " + std::to_string(limit.count()) + " ms"};
    }
    if (woken < 0 && errno == EINTR) {
      continue;
    }
    if (waits[1].revents != 0) {
      return Error{ErrorKind::kRefused, "the start was given up"};
    }
    break;
  }
  PreloadReply reply;
  iovec part{&reply, sizeof reply};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got == 0 || (got < 0 && errno == ECONNRESET)) {
    return Error{ErrorKind::kUnavailable, "it has ended"};
  }
  reply.text[sizeof reply.text - 1] = '\0';
  const bool whole = got == sizeof reply && reply.version == kPreloadVersion;
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  ucred sender{};
  if (verified && head != nullptr && head->cmsg_type == SCM_CREDENTIALS) {
    std::memcpy(&sender, CMSG_DATA(head), sizeof sender);
  }
  if (!whole || (verified && sender.pid != reply.pid)) {
    return Error{ErrorKind::kUnavailable, "it does not speak the preload protocol of this build"};
  }
  return reply;
}

Result<void> PreloadHandle::AwaitReady(Duration limit, const LaunchUnderWay& under_way) {
  if (gone()) {
    return Error{ErrorKind::kUnavailable, "it has ended"};
  }
  if (ready_) {
    return {};
  }
  const Result<PreloadReply> reply = Receive(socket_.get(), limit, under_way, false);
  if (!reply) {
    return reply.error().kind == ErrorKind::kRefused
               ? Error{ErrorKind::kRefused, "it is still being loaded"}
               : MarkGone("it ended while it was loaded");
  }
  if (reply->word != PreloadWord::kReady) {
    return MarkGone(reply->text);
  }
  remark_ = reply->text;
  ready_ = true;
  return {};
}

Result<LaunchedWorker> PreloadHandle::Fork(const WorkerSpec& spec, const ChildStdio& stdio,
                                           const std::vector<std::string>& command_line,
                                           LaunchUnderWay& under_way) {
  ASSIGN_OR_RETURN(auto line, Line());
  constexpr int kOn = 1;
  ::setsockopt(line.first.get(), SOL_SOCKET, SO_PASSCRED, &kOn, sizeof kOn);
  ASSIGN_OR_RETURN(const UniqueFd image, ImageOf(spec, command_line));
  const PreloadRequest request{.sequence = ++sequence_,
                               .blocks = static_cast<std::uint32_t>(spec.blocks.size())};
  std::vector<int> descriptors = {stdio[0], stdio[1], stdio[2], line.second.get(), image.get()};
  for (const MemoryBlock& block : spec.blocks) {
    descriptors.push_back(block.file->get());
  }
  if (!SendWithDescriptors(socket_.get(), {reinterpret_cast<const char*>(&request), sizeof request},
                           descriptors, MSG_DONTWAIT)) {
    return MarkGone("it cannot be asked: " + std::string(std::strerror(errno)));
  }
  line.second.Reset();
  while (true) {
    const Result<PreloadReply> reply = Receive(socket_.get(), kPatience, under_way, false);
    if (!reply) {
      const bool again = reply.error().kind == ErrorKind::kRefused && !std::exchange(late_, true);
      return again ? reply.error() : MarkGone(reply.error().message);
    }
    late_ = false;
    if (reply->word == PreloadWord::kRefuses) {
      Error gone = MarkGone(reply->text);
      gone.kind = reply->error != 0 ? ErrorKind::kInvalid : gone.kind;
      return gone;
    }
    if (reply->sequence == request.sequence) {
      if (reply->pid <= 0) {
        return MarkGone("it cannot fork: " + std::string(std::strerror(reply->error)));
      }
      return Adopt(reply->pid, line.first.get(), under_way);
    }
  }
}

// Its session and its parent are as they should be once it says so itself.
Result<LaunchedWorker> PreloadHandle::Adopt(pid_t pid, int line, LaunchUnderWay& under_way) {
  if (!IsLivingChild(pid)) {
    return MarkGone("it names a process that is not a worker of its own");
  }
  const bool wanted = under_way.Begun(pid);
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  Result<PreloadReply> reply = !wanted ? Error{ErrorKind::kRefused, "the start was given up"}
                               : !pidfd
                                   ? Result<PreloadReply>(SystemError("watch", "a worker", errno))
                                   : Receive(line, kPatience, under_way, true);
  under_way.End();
  if (reply && reply->error == 0 && reply->pid == pid && ::getsid(pid) == pid &&
      ::send(line, "g", 1, MSG_NOSIGNAL) == 1) {
    return LaunchedWorker{pid, std::move(pidfd)};
  }
  ::kill(pid, SIGKILL);  // Its status is taken by the sweep of foreign children: it may be another
                         // process.
  return !reply ? reply.error()
                : Error{ErrorKind::kSystem, "cannot " + std::string(reply->text) +
                                                " the worker: " + std::strerror(reply->error)};
}

}  // namespace ddprun

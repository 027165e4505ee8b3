#include "launcher/verbs/stacks_child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "launcher/verbs/rank_spans.h"

namespace ddprun {
namespace {

std::vector<std::string> StacksCommand(const ServerQuery& server,
                                       const std::vector<std::uint32_t>& ranks) {
  std::vector<std::string> command{"ddprun", "stacks", "--rank=" + RankSpansText(ranks)};
  for (const auto& [flag, value] :
       {std::pair("--endpoint=", server.endpoint), std::pair("--run-dir=", server.run_dir),
        std::pair("--rdzv-id=", server.run_id), std::pair("--token-file=", server.token_file),
        std::pair("--tls-cert=", server.tls.certificate), std::pair("--tls-key=", server.tls.key),
        std::pair("--tls-ca=", server.tls.authority)}) {
    if (!value.empty()) {
      command.push_back(flag + value);
    }
  }
  if (server.insecure) {
    command.emplace_back("--insecure");
  }
  return command;
}

// 0, or why not.
int SpawnWriting(std::vector<std::string> command, int out, pid_t& pid) {
  std::vector<char*> arguments;
  for (std::string& word : command) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
  const int error =
      ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

StacksChild::~StacksChild() {
  End();
}

void StacksChild::End() {
  told_ = UniqueFd();
  if (const pid_t pid = std::exchange(pid_, 0); pid > 0) {
    ::kill(pid, SIGKILL);  // It holds nothing: nodes end what nobody waits for.
    ::waitpid(pid, nullptr, 0);
  }
}

void StacksChild::Begin(const ServerQuery& server, const std::vector<std::uint32_t>& ranks) {
  End();
  text_.clear();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    text_ = std::string("cannot ask: pipe: ") + std::strerror(errno) + "\n";
    return;
  }
  told_ = UniqueFd(ends[0]);
  const UniqueFd out(ends[1]);
  if (const int error = SpawnWriting(StacksCommand(server, ranks), out.get(), pid_); error != 0) {
    pid_ = 0;
    told_ = UniqueFd();
    text_ = std::string("cannot ask: starting ddprun stacks: ") + std::strerror(error) + "\n";
  }
}

void StacksChild::Read() {
  std::array<char, 16 << 10> bytes;
  const ssize_t size = ::read(told_.get(), bytes.data(), bytes.size());
  if (size > 0) {
    const auto room = kMostText - std::min(kMostText, text_.size());
    text_.append(bytes.data(), std::min(static_cast<std::size_t>(size), room));
  } else if (size == 0 || errno != EINTR) {
    End();
  }
}

}  // namespace ddprun

// A `ddprun rendezvous` as a process of its own, and what it costs.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "common/endpoint.h"

namespace ddprun {

[[noreturn]] inline void Fail(const std::string& text) {
  std::fprintf(stderr, "rendezvous_scale: %s\n", text.c_str());
  std::exit(1);
}

inline void RaiseFileLimit(std::size_t agents) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < agents + 100) {
    Fail("only " + std::to_string(limit.rlim_cur) + " open files are allowed (ulimit -Hn)");
  }
}

class ServerProcess {
 public:
  // Without a token none is drawn either.
  explicit ServerProcess(const std::string& ddprun, const std::string& token = "") {
    ::setenv("DDPRUN_TOKEN", token.c_str(), 1);
    int out[2];
    if (::pipe2(out, O_CLOEXEC) != 0) {
      Fail("no pipe");
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDERR_FILENO);
    std::string name = ddprun, verb = "rendezvous", listen = "--listen=127.0.0.1:0";
    std::string insecure = "--insecure";
    char* argv[] = {name.data(), verb.data(), listen.data(),
                    token.empty() ? insecure.data() : nullptr, nullptr};
    if (::posix_spawn(&pid_, name.c_str(), &actions, nullptr, argv, environ) != 0) {
      Fail("cannot execute '" + ddprun + "'");
    }
    posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    std::string said;
    char c;
    while (::read(out[0], &c, 1) == 1 && c != '\n') {
      said += c;
    }
    const std::size_t at = said.find("127.0.0.1:");
    if (at == std::string::npos) {
      Fail("the server does not say where it serves: " + said);
    }
    port_ = static_cast<std::uint16_t>(std::atoi(said.c_str() + at + 10));
    stderr_ = out[0];  // Kept open, unread: it says little.
  }
  ~ServerProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(stderr_);
  }

  Endpoint endpoint() const { return {"127.0.0.1", port_}; }

  double ResidentKilobytes() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/statm");
    double pages = 0;
    file >> pages >> pages;
    return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1024;
  }

  double CpuSeconds() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(text.rfind(')') + 2));
    std::string skipped;
    double user = 0, system = 0;
    for (int i = 0; i < 11; ++i) {
      fields >> skipped;
    }
    fields >> user >> system;
    return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }

 private:
  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
  int stderr_ = -1;
};

}  // namespace ddprun

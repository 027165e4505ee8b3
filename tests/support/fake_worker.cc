// A worker that does what its arguments say, in their order: see kHelp.
//
// Stands in for a training program wherever tests need one that misbehaves on order.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <thread>

#include "proto/notify.h"

namespace {

constexpr const char* kHelp = R"(fake_worker ACTION...   each in order; at the end: exit 0
conditions, for all actions that follow (until --always):
  --on-rank=N --on-local-rank=N --on-restart=N --always
actions (%r in a value: RANK, %g: DDPRUN_GENERATION, %p: process id):
  --print=TEXT --print-err=TEXT       a line on stdout or stderr
  --print-file=PATH                   its bytes on stdout
  --print-raw=TEXT                    without a newline; \r and \n are understood
  --lines=N                           N numbered lines "rank R line I END"
  --spew=MB                           that many MB of such lines on stdout
  --env-file=PATH                     NAME=value lines
  --print-state                       session, group, signals, limits, open descriptors
  --echo-stdin                        one line of stdin to stdout
  --touch=PATH --wait-file=PATH       make a file; wait until one is there (at most 60 s)
  --notify=TEXT                       a datagram to the agent, e.g. READY=1
  --steps=N --step-ms=MS              STEP=1..N to the agent, MS (set before, default 10) apart
  --ignore-term --exit-on-term=CODE
  --grandchild --grandchild-setsid    a child that hangs, ignores TERM and keeps stdout open
  --exit=CODE --signal=N --hang --stop-self --sleep-ms=MS
combinations:  --on-rank=1 --exit=3 --always --hang       rank 1 fails, the others hang
               --ignore-term --grandchild-setsid --hang   only SIGKILL, twice, helps
               --on-restart=0 --signal=9                  dies in the first attempt only
               --notify=READY=1 --exit=76                 a code that means "do not restart"
)";

std::string Env(const char* name, const char* fallback) {
  const char* const value = std::getenv(name);
  return value == nullptr ? fallback : value;
}

std::string Expand(std::string text) {
  const std::map<std::string, std::string> names = {{"%r", Env("RANK", "0")},
                                                    {"%g", Env("DDPRUN_GENERATION", "0")},
                                                    {"%p", std::to_string(::getpid())}};
  for (const auto& [name, value] : names) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name)) {
      text.replace(at, name.size(), value);
    }
  }
  return text;
}

std::string Unescape(std::string text) {
  for (const auto& [name, value] : {std::pair{"\\r", "\r"}, std::pair{"\\n", "\n"}}) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name)) {
      text.replace(at, 2, value);
    }
  }
  return text;
}

void Put(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0) {
      std::_Exit(98);
    }
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

std::string Line(long number) {
  // Lengths differ, so that pieces of a pipe end in the middle of lines.
  return "rank " + Env("RANK", "0") + " line " + std::to_string(number) + " " +
         std::string(static_cast<std::size_t>(number * 37 % 200), 'x') + " END\n";
}

void PutLines(long count) {
  for (long i = 0; i < count; ++i) {
    Put(1, Line(i));
  }
}

void Spew(long megabytes) {
  std::string block;
  long line = 0;
  for (long written = 0; written < megabytes << 20; written += static_cast<long>(block.size())) {
    block.clear();
    while (block.size() < 60'000) {
      block += Line(line++);
    }
    Put(STDOUT_FILENO, block);
  }
}

[[noreturn]] void Hang() {
  while (true) {
    ::pause();
  }
}

void Grandchild(bool own_session) {
  int ready[2];
  if (::pipe(ready) != 0) {
    std::_Exit(97);
  }
  if (::fork() == 0) {
    ::signal(SIGTERM, SIG_IGN);
    if (own_session) {
      ::setsid();
    }
    ::close(ready[1]);
    Hang();
  }
  ::close(ready[1]);
  char byte = 0;
  (void)!::read(ready[0], &byte, 1);  // End of file: it has changed its session.
  ::close(ready[0]);
}

void PrintState() {
  {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("Sig", 0) == 0) {
        std::cout << line << '\n';
      }
    }
  }
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  std::cout << "session " << (::getsid(0) == ::getpid() ? "own" : "shared") << "\ngroup "
            << (::getpgrp() == ::getpid() ? "own" : "shared") << "\nnofile " << files.rlim_cur
            << "\nfds";
  for (int fd = 0; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) {
      std::cout << ' ' << fd;
    }
  }
  std::cout << std::endl;
}

void WriteEnvironment(const std::string& path) {
  std::ofstream file(path + ".part");
  for (char** entry = environ; *entry != nullptr; ++entry) {
    file << *entry << '\n';
  }
  file.close();
  std::rename((path + ".part").c_str(), path.c_str());
}

void WaitForFile(const std::string& path) {
  for (int i = 0; i < 60'000 / 2; ++i) {
    if (::access(path.c_str(), F_OK) == 0) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::_Exit(99);
}

void Die(int signal) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

int g_exit_on_term = 0;

using Action = std::function<void(const std::string& value)>;

std::map<std::string, Action> Actions() {
  static const ddprun::Notifier notifier(Env("DDPRUN_NOTIFY_SOCKET", ""));
  static long step_ms = 10;
  const auto number = [](const std::string& value) { return std::atol(value.c_str()); };
  const auto rest = [](long milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  };
  return {
      {"--print", [](const auto& v) { Put(1, Expand(v) + "\n"); }},
      {"--print-err", [](const auto& v) { Put(2, Expand(v) + "\n"); }},
      {"--print-raw", [](const auto& v) { Put(1, Unescape(Expand(v))); }},
      {"--print-file",
       [](const auto& v) {
         std::ifstream in(Expand(v));
         Put(1, std::string(std::istreambuf_iterator<char>(in), {}));
       }},
      {"--lines", [=](const auto& v) { PutLines(number(v)); }},
      {"--spew", [=](const auto& v) { Spew(number(v)); }},
      {"--env-file", [](const auto& v) { WriteEnvironment(Expand(v)); }},
      {"--print-state", [](const auto&) { PrintState(); }},
      {"--echo-stdin",
       [](const auto&) {
         std::string line;
         std::getline(std::cin, line);
         Put(1, "read: " + line + "\n");
       }},
      {"--touch", [](const auto& v) { std::ofstream(Expand(v)).close(); }},
      {"--wait-file", [](const auto& v) { WaitForFile(Expand(v)); }},
      {"--notify", [](const auto& v) { notifier.Send(Expand(v)); }},
      {"--step-ms", [=](const auto& v) { step_ms = number(v); }},
      {"--steps",
       [=](const auto& v) {
         for (long i = 1; i <= number(v); ++i) {
           notifier.Send("STEP=" + std::to_string(i) + "\n");
           rest(step_ms);
         }
       }},
      {"--ignore-term", [](const auto&) { ::signal(SIGTERM, SIG_IGN); }},
      {"--exit-on-term",
       [=](const auto& v) {
         g_exit_on_term = static_cast<int>(number(v));
         ::signal(SIGTERM, [](int) { std::_Exit(g_exit_on_term); });
       }},
      {"--grandchild", [](const auto&) { Grandchild(false); }},
      {"--grandchild-setsid", [](const auto&) { Grandchild(true); }},
      {"--exit", [=](const auto& v) { std::exit(static_cast<int>(number(v))); }},
      {"--signal", [=](const auto& v) { Die(static_cast<int>(number(v))); }},
      {"--hang", [](const auto&) { Hang(); }},
      {"--stop-self", [](const auto&) { ::raise(SIGSTOP); }},
      {"--sleep-ms", [=](const auto& v) { rest(number(v)); }},
  };
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, Action> actions = Actions();
  const std::map<std::string, std::string> conditions = {
      {"--on-rank", Env("RANK", "0")},
      {"--on-local-rank", Env("LOCAL_RANK", "0")},
      {"--on-restart", Env("TORCHELASTIC_RESTART_COUNT", "0")}};
  bool applies = true;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const std::string name = argument.substr(0, equals);
    const std::string value = argument.substr(std::min(equals + 1, argument.size()));
    if (name == "--help") {
      std::cout << kHelp;
      return 0;
    }
    if (name == "--always") {
      applies = true;
    } else if (const auto condition = conditions.find(name); condition != conditions.end()) {
      applies = applies && condition->second == value;
    } else if (const auto action = actions.find(name); action != actions.end()) {
      if (applies) {
        action->second(value);
      }
    } else {
      std::cerr << "fake_worker: unknown argument '" << argument << "'\n" << kHelp;
      return 2;
    }
  }
  return 0;
}

#include "launcher/kept_preload_launch.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <sstream>
#include <string>
#include <utility>

#include "agent/guard_signals.h"
#include "agent/kept_launch.h"
#include "common/files.h"
#include "common/log.h"
#include "launcher/node_slot.h"
#include "launcher/print_out.h"
#include "proto/worker_env.h"

namespace ddprun {
namespace {

constexpr Duration kAnswerLimit{200};   // Of a process that only waits for this.
constexpr Duration kBeginLimit{2'000};  // Until the guard has been executed.
constexpr int kKilled = 128 + SIGKILL;

std::string FileKey(const char* path) {
  struct stat info {};
  ::stat(path, &info);
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino) + ":" +
         std::to_string(info.st_mtim.tv_sec) + ":" + std::to_string(info.st_mtim.tv_nsec);
}

std::string DirectoryKey() {
  struct stat info {};
  ::stat(".", &info);
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

// This process's executable, arguments and environment, for another one to execute.
std::string LaunchText(const LaunchConfig& config) {
  std::error_code error;
  std::string text = std::filesystem::read_symlink("/proc/self/exe", error).native() + '\0';
  text += '\0';
  for (const std::string& word : config.own_command) {
    text += word + '\0';
  }
  text += '\0';
  for (char** entry = environ; *entry != nullptr; ++entry) {
    text += std::string(*entry) + '\0';
  }
  return text + '\0';
}

// Whether guard and agent read the same command line again. A pipe is empty by then, and this
// process's descriptors are not theirs. The text cannot hold an empty argument.
bool CanBeReadAgain(const LaunchConfig& config) {
  const auto can_be = [](const Setting& setting) {
    const std::string& path = setting.value;
    const bool names_file = setting.name == "token-file" || setting.name.starts_with("tls-") ||
                            setting.name == "config";
    struct stat info {};
    return !names_file || path.empty() ||
           (::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
            !path.starts_with("/dev/") && !path.starts_with("/proc/"));
  };
  return std::ranges::none_of(config.own_command, &std::string::empty) &&
         std::ranges::all_of(config.settings, can_be);
}

// Begins the launch: the guard has inherited the same as this process, and has got its go. An
// error: nothing has begun.
Result<UniqueFd> Begin(const std::filesystem::path& socket, const LaunchConfig& config) {
  {
    // A process that stands still must not get this launch's streams: it would hold them open.
    ASSIGN_OR_RETURN(const UniqueFd greeting, AskKept(socket, KeptRequest::kState));
    RETURN_IF_ERROR(AwaitKept(greeting.get(), kAnswerLimit));
  }
  ASSIGN_OR_RETURN(const UniqueFd text, MemoryFile("ddprun-launch", LaunchText(config)));
  const std::array<int, kLaunchDescriptors> descriptors = {0, 1, 2, text.get()};
  ASSIGN_OR_RETURN(UniqueFd connection, AskKept(socket, KeptRequest::kLaunch, descriptors));
  RETURN_IF_ERROR(AwaitKept(connection.get(), kAnswerLimit));
  pollfd there{connection.get(), POLLIN, 0};
  const std::string own = InheritedState();
  std::string its(own.size() + 1, '\0');
  const ssize_t got = ::poll(&there, 1, static_cast<int>(kBeginLimit.count())) == 1
                          ? ::recv(connection.get(), its.data(), its.size(), 0)
                          : -1;
  its.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  if (got <= 0) {
    return Error{ErrorKind::kUnavailable, "it has not started the launch in time"};
  }
  if (own.empty() || its != own) {
    std::istringstream a(own);
    std::istringstream b(its);
    std::string mine;
    std::string other;
    while (std::getline(a, mine) && std::getline(b, other) && mine == other) {
    }
    return Error{ErrorKind::kRefused,
                 "its limits, rights or control groups differ from this launch's ('" +
                     Printable(other) + "', here '" + Printable(mine) + "')"};
  }
  if (::send(connection.get(), "g", 1, MSG_NOSIGNAL) != 1) {
    return Error{ErrorKind::kUnavailable, "it has ended"};
  }
  return connection;
}

// Passes signals on until the guard tells the run's exit code.
int StandFor(const UniqueFd& connection) {
  const sigset_t signals = SignalsOfTheGuard();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const UniqueFd arrived(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  while (true) {
    std::array<pollfd, 2> events = {pollfd{arrived.get(), POLLIN, 0},
                                    pollfd{connection.get(), POLLIN, 0}};
    ::poll(events.data(), events.size(), -1);
    signalfd_siginfo info{};
    while (::read(arrived.get(), &info, sizeof info) == sizeof info) {
      const char number = static_cast<char>(info.ssi_signo);
      (void)!::send(connection.get(), &number, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (events[1].revents == 0) {
      continue;
    }
    unsigned char code = 0;
    const ssize_t got = ::recv(connection.get(), &code, 1, MSG_DONTWAIT);
    if (got == 1) {
      return code;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      std::fputs(
          "ddprun: error: the guard of this run was killed; its workers end with it "
          "[guard-killed]\n",
          stderr);
      return kKilled;
    }
  }
}

std::string Describe(const KeptAnswer& answer) {
  const Result<PreloadPurpose> purpose = ReadPurpose(answer.plan);
  std::string text = "pid " + std::to_string(answer.reply.pid) + ", for another " +
                     FormatDuration(Duration{answer.reply.left_ms}) + ":";
  if (!purpose) {
    return text + " " + purpose.error().message + "\n";
  }
  for (const std::string& word : purpose->command) {
    text += " " + Printable(word);
  }
  const std::string remark = answer.reply.remark;
  return text + "\n  in " + Printable(purpose->directory) + "\n  has loaded " + purpose->preload +
         (remark.empty() ? "" : " without " + Printable(remark)) + "\n";
}

}  // namespace

Result<std::filesystem::path> KeptSocket(const LaunchConfig& config) {
  ASSIGN_OR_RETURN(const std::filesystem::path directory, UserDirectory());
  std::string key = FileKey("/proc/self/exe") + "\n" + DirectoryKey() + "\n" + config.preload +
                    "\n" + config.program + "\n" + (config.module ? "m" : "") +
                    (config.no_python ? "n" : "") + (config.run_path ? "r" : "") + "\n" +
                    config.called_from.native();
  for (const char* const name : {"PATH", "PYTHONPATH", "PYTHONHOME", "PYTHON_EXEC"}) {
    key += "\n" + GetProcessEnv(name).value_or("");
  }
  return directory / (std::string(kKeptPrefix) + Hex(std::hash<std::string>{}(key)));
}

std::optional<int> LaunchFromKept(LaunchConfig& config) {
  if (config.keep_warm == Duration{0} || config.preload == "none" || config.dry_run ||
      OwnKeptLaunch().role != KeptLaunch::Role::kNone || !CanBeReadAgain(config)) {
    return std::nullopt;
  }
  const auto name = KeptSocket(config);
  const auto sockets = name ? KeptSockets(name->parent_path(), name->filename().native() + "-")
                            : std::vector<std::filesystem::path>();
  for (const std::filesystem::path& socket : sockets) {
    const Result<UniqueFd> begun = Begin(socket, config);
    if (begun) {
      return StandFor(*begun);
    }
    if (begun.error().kind == ErrorKind::kRefused) {  // Else a name whose process was killed.
      config.warnings.push_back("not using the kept preload process: " + begun.error().message +
                                " [kept-preload-not-used]");
      break;
    }
  }
  return std::nullopt;
}

int AnswerKept(const KeptQuery& query) {
  const auto directory = UserDirectory();
  std::string text;
  for (const std::filesystem::path& socket :
       directory ? KeptSockets(*directory) : std::vector<std::filesystem::path>()) {
    const auto connection = AskKept(socket, KeptRequest::kState);
    if (!connection) {
      continue;  // A name whose process was killed.
    }
    const auto answer = AwaitKept(connection->get(), kAnswerLimit);
    text += answer ? Describe(*answer) : "in use: its run has not ended yet\n";
    if (query.stop) {
      (void)AskKept(socket, KeptRequest::kEnd);
    }
  }
  return PrintOut(text.empty() ? "no preload process is kept (--keep-warm)\n"
                  : query.stop ? "ended:\n" + text
                               : text);
}

}  // namespace ddprun

// ddprun: see README.md. Parses the command line and carries out its verb.
#include <fcntl.h>
#include <openssl/crypto.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include "agent/kept_launch.h"
#include "agent/workers/worker_spec.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "common/overload.h"
#include "common/text.h"
#include "launcher/check/check.h"
#include "launcher/cli.h"
#include "launcher/command_line/help.h"
#include "launcher/hosts/node_front.h"
#include "launcher/launch.h"
#include "launcher/pool/daemon.h"
#include "launcher/print_out.h"
#include "launcher/server/serve.h"

namespace ddprun {
namespace {

// The directory of the file that the shell found under this name: where a link is, not what it
// points to.
std::filesystem::path CalledFrom(const std::string& argv0) {
  if (argv0.find('/') != std::string::npos) {
    return std::filesystem::path(argv0).parent_path();
  }
  for (const std::string& directory : Split(GetProcessEnv("PATH").value_or(""), ':')) {
    if (::access((directory + "/" + argv0).c_str(), X_OK) == 0) {
      return directory;
    }
  }
  return {};
}

// For another directory: a name stays a name.
std::string Lasting(const std::string& argv0) {
  std::error_code error;
  const bool is_path = argv0.find('/') != std::string::npos;
  const std::filesystem::path path = std::filesystem::absolute(argv0, error);
  return is_path && !error ? path.native() : argv0;
}

// Where one of 0, 1 and 2 was closed, a socket would get its number, and lines would be written
// into that. Runs before the constructors of libraries, which open descriptors too.
[[gnu::constructor(101)]] void FillStandardDescriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) {
      (void)!::open("/dev/null", O_RDWR);  // The lowest number that is free.
    }
  }
}

void TakeSurroundings(const std::string& argv0, const std::vector<std::string>& args,
                      LaunchConfig& config) {
  config.own_command = args;
  config.own_command.insert(config.own_command.begin(), Lasting(argv0));
  if (config.context.index.value_or(0) == 0) {  // One of many says so.
    std::ranges::move(MisspeltVariables(ProcessEnvironment()), std::back_inserter(config.warnings));
  }
}

int Main(const std::string& argv0, const std::vector<std::string>& args) {
  const std::string name = ProgramName(argv0);
  if (args.empty() && name == "ddprun") {
    std::fputs(
        (ShortHelp(name) + "\n" + Heading(LogLevel::kError, name) + " no program given\n").c_str(),
        stderr);
    return kExitUsage;
  }
  const Result<CommandLine> line = ParseCommandLine(args, GetProcessEnv, name);
  if (!line) {
    std::fprintf(stderr, "%s %s\n", Heading(LogLevel::kError, name).c_str(),
                 Printable(line.error().message).c_str());
    return kExitUsage;
  }
  return std::visit(Overload{
                        [&](LaunchConfig config) {
                          config.called_from = CalledFrom(Lasting(argv0));
                          TakeSurroundings(argv0, args, config);
                          return Launch(config);
                        },
                        [&](CheckRequest request) {
                          TakeSurroundings(argv0, args, request.launch);
                          return Check(std::move(request), Launch);
                        },
                        [](const ServerConfig& config) { return Serve(config); },
                        [](const DaemonConfig& config) { return RunDaemon(config); },
                        [](const VerbRequest& request) { return CarryOut(request); },
                        [](const Print& print) { return PrintOut(print.text); },
                    },
                    *line);
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  ddprun::EndOnException(ddprun::kExitInternal);
  // Otherwise OpenSSL frees its tables when main returns, and a thread of gRPC that is just closing
  // a connection reads them.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  ddprun::BeginKept();
  std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (!args.empty() && args[0] == ddprun::kOrderOnStdin) {
    args = ddprun::TakeOrder(args.size() > 1 ? std::optional(args[1]) : std::nullopt);
  }
  const int code = ddprun::Main(argc > 0 ? argv[0] : "ddprun", args);
  ddprun::EndKept(code);
  return code;
}

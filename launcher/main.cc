// ddprun: see README.md. Parses the command line and carries out its verb.
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "common/overload.h"
#include "launcher/cli.h"
#include "launcher/launch.h"
#include "launcher/serve.h"
#include "proto/exit_code.h"

namespace ddprun {
namespace {

int PrintOut(const std::string& text) {
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 1 : kExitOk;
}

int Main(const std::vector<std::string>& args) {
  const Result<CommandLine> line = ParseCommandLine(args, GetProcessEnv);
  if (!line) {
    std::fprintf(stderr, "ddprun: %s\n", line.error().message.c_str());
    return kExitUsage;
  }
  return std::visit(Overload{
                        [](const LaunchConfig& config) { return Launch(config); },
                        [](const ServerConfig& config) { return Serve(config); },
                        [](const Print& print) { return PrintOut(print.text); },
                    },
                    *line);
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  return ddprun::Main(std::vector<std::string>(argv + 1, argv + argc));
}

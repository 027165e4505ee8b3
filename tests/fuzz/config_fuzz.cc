// ddprun's command line, its environment and its settings file, as any script may make them.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "launcher/cli.h"
#include "launcher/command_line/config_file.h"
#include "launcher/command_line/raw_flags.h"
#include "launcher/verbs/environment_report.h"
#include "launcher/verbs/logs.h"
#include "launcher/verbs/orders.h"
#include "launcher/verbs/report.h"
#include "launcher/verbs/run_stacks.h"
#include "launcher/verbs/stacks.h"
#include "launcher/verbs/status.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {

// The work of verbs is not done here, and needs no gRPC then.
std::string EnvironmentReport() {
  CHECK(false);
}

int PrintStacks(const StacksRequest&) {
  CHECK(false);
}
int PrintRunStacks(const RunStacksRequest&) {
  CHECK(false);
}
int PrintLogs(const LogsRequest&) {
  CHECK(false);
}
int GiveOrder(const OrderRequest&) {
  CHECK(false);
}
int WatchStatus(const StatusRequest&) {
  CHECK(false);
}
Result<std::string> StatusNow(const StatusRequest&, bool*) {
  CHECK(false);
}
Result<std::string> AskFor(const ControlCommand&) {
  CHECK(false);
}
Result<std::string> PackReport(const ReportRequest&) {
  CHECK(false);
}
int AnswerKept(const KeptQuery&) {
  CHECK(false);
}
Result<std::string> MakeNewProject(const NewProjectRequest&) {
  CHECK(false);
}
int PublishAs(const PublishCommand&, const GetEnv&) {
  CHECK(false);
}

}  // namespace ddprun

namespace {

using namespace ddprun;

void ReadFile(const std::string& text) {
  static RawFlags raw;
  static CLI::App* const app = [] {
    auto* made = new CLI::App();
    made->set_help_flag();  // The table has its own.
    AddFlags(*made, raw);
    return made;
  }();
  Taken(ParseConfigFile(*app, "ddprun.toml", text));
}

// One argument a line; "NAME=value" lines before a line "--" are the environment.
void ReadCommandLine(std::vector<std::string> lines, const std::string& name) {
  std::map<std::string, std::string> environment;
  if (const auto end = std::find(lines.begin(), lines.end(), "--"); end != lines.end()) {
    for (auto line = lines.begin(); line != end; ++line) {
      const std::size_t equals = line->find('=');
      if (equals != line->npos) {
        environment[line->substr(0, equals)] = line->substr(equals + 1);
      }
    }
    lines.erase(lines.begin(), end + 1);
  }
  const auto get = [&](const std::string& variable) -> std::optional<std::string> {
    const auto found = environment.find(variable);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
  const Result<CommandLine> parsed = ParseCommandLine(lines, get, name);
  if (!Taken(parsed)) {
    return;
  }
  if (const auto* const config = std::get_if<LaunchConfig>(&*parsed)) {
    CHECK(config->spec.min_nodes >= 1 && config->spec.min_nodes <= config->spec.max_nodes);
    CHECK(config->workers >= 1 && !config->program.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScratchDirectory scratch;  // No user's ddprun.toml is here.
  static const bool moved = ::chdir(scratch.path().c_str()) == 0;
  CHECK(moved);
  FuzzInput input(data, size);
  switch (input.Byte() % 3) {
    case 0:
      ReadFile(input.RestText());
      break;
    case 1:
      ReadCommandLine(input.Pieces("\n"), "ddprun");
      break;
    default:
      ReadCommandLine(input.Pieces("\n"), "torchrun");
      break;
  }
  return 0;
}

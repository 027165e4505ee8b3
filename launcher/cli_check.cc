#include "launcher/cli_check.h"

#include <algorithm>

namespace ddprun {

Result<CommandLine> ParseCheckLine(
    const std::vector<std::string>& args,
    const std::function<Result<CommandLine>(const std::vector<std::string>&)>& launch) {
  if (IsCheckWorker(args)) {
    return CommandLine(ParseCheckWorker(args));
  }
  if (std::ranges::find(args, "--help") != args.end() ||
      std::ranges::find(args, "-h") != args.end()) {
    return CommandLine(Print{CheckHelp()});
  }
  const auto config_of = [&](const std::vector<std::string>& others) -> Result<LaunchConfig> {
    ASSIGN_OR_RETURN(CommandLine line, launch(others));
    auto* const config = std::get_if<LaunchConfig>(&line);
    if (config == nullptr) {
      return Error{ErrorKind::kInvalid, "ddprun check takes no flag that only prints"};
    }
    return std::move(*config);
  };
  ASSIGN_OR_RETURN(CheckRequest request, ParseCheck(args, config_of));
  return CommandLine(std::move(request));
}

}  // namespace ddprun

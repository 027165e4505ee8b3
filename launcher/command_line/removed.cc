#include "launcher/command_line/removed.h"

#include <algorithm>
#include <array>

namespace ddprun {
namespace {

struct RefusedName {
  const char* name;
  const char* instead;
};

constexpr std::array kRemovedNames{
    RefusedName{kListOfEndpoints,
                "Set --run-dir=DIR to a directory that all nodes share, or run `ddprun rendezvous` "
                "on a host that stays up and name its one HOST:PORT"},
    RefusedName{"top", "Use `ddprun status --watch` (a program of that name: `ddprun -- top`)"},
    RefusedName{"--no-pairs",
                "`ddprun check` of several nodes always measures the network between them"},
    RefusedName{"--journal", "Use --state-dir=DIR, a directory in place of the file"},
    RefusedName{"--trainjob-progress",
                "A program reports its progress to Kubeflow itself, by the Kubeflow SDK or "
                "transformers' callback; ddprun reports it by --http-listen and `ddprun status`"},
};
// Of other tools.
constexpr std::array kOfOtherTools{
    RefusedName{"ps", "`ddprun status` shows a run"},
    RefusedName{"list", "`ddprun status` shows a run"},
    RefusedName{"attach", "`ddprun logs --follow` shows what workers print"},
    RefusedName{"cancel", "`ddprun stop` ends a run"},
    RefusedName{
        "restart",
        "`ddprun stop --soon` ends a run after its workers have saved; then start it again"},
    RefusedName{"kill", "`ddprun stop` ends a run"},
};

}  // namespace

std::optional<std::string> WhyRefused(const std::string& name) {
  const auto removed = std::ranges::find(kRemovedNames, name, &RefusedName::name);
  if (removed != kRemovedNames.end()) {
    return name + " was removed. " + removed->instead;
  }
  const auto command = std::ranges::find(kOfOtherTools, name, &RefusedName::name);
  if (command != kOfOtherTools.end()) {
    return name + " is not a command of ddprun. " + command->instead +
           " (a program of that name: `ddprun -- " + name + "`)";
  }
  return std::nullopt;
}

Result<void> RefuseList(const std::string& endpoint) {
  if (endpoint.find(',') == std::string::npos) {
    return {};
  }
  return Error{ErrorKind::kInvalid, *WhyRefused(kListOfEndpoints)};
}

}  // namespace ddprun

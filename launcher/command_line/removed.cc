#include "launcher/command_line/removed.h"

#include <algorithm>
#include <array>

namespace ddprun {
namespace {

struct RemovedName {
  const char* name;
  const char* instead;
};

constexpr std::array kRemoved{
    RemovedName{kListOfEndpoints,
                "Set --run-dir=DIR to a directory that all nodes share, or run `ddprun rendezvous` "
                "on a host that stays up and name its one HOST:PORT"},
    RemovedName{"top", "Use `ddprun status --watch` (a program of that name: `ddprun -- top`)"},
    RemovedName{"--trainjob-progress",
                "A program reports its progress to Kubeflow itself, by the Kubeflow SDK or "
                "transformers' callback; ddprun reports it by --http-listen and `ddprun status`"},
};

}  // namespace

std::optional<std::string> WhyRemoved(const std::string& name) {
  const auto found = std::ranges::find(kRemoved, name, &RemovedName::name);
  if (found == kRemoved.end()) {
    return std::nullopt;
  }
  return name + " was removed. " + found->instead;
}

Result<void> RefuseList(const std::string& endpoint) {
  if (endpoint.find(',') == std::string::npos) {
    return {};
  }
  return Error{ErrorKind::kInvalid, *WhyRemoved(kListOfEndpoints)};
}

}  // namespace ddprun

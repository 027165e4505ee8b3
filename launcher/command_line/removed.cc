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

}  // namespace ddprun

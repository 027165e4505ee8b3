#include "launcher/command_line/removed.h"

#include <algorithm>
#include <array>

namespace ddprun {
namespace {

struct RefusedName {
  const char* name;
  const char* why;
  const char* instead;
};

constexpr const char* kRemoved = " was removed. ";
constexpr const char* kNoCommand = " is not a command of ddprun. ";

constexpr std::array kRefused{
    RefusedName{kListOfEndpoints, kRemoved,
                "Set --run-dir=DIR to a directory that all nodes share, or run `ddprun rendezvous` "
                "on a host that stays up and name its one HOST:PORT"},
    RefusedName{"top", kRemoved,
                "Use `ddprun status --watch` (a program of that name: `ddprun -- top`)"},
    RefusedName{"--no-pairs", kRemoved,
                "`ddprun check` of several nodes always measures the network between them"},
    RefusedName{"--journal", kRemoved, "Use --state-dir=DIR, a directory in place of the file"},
    RefusedName{"--trainjob-progress", kRemoved,
                "A program reports its progress to Kubeflow itself, by the Kubeflow SDK or "
                "transformers' callback; ddprun reports it by --http-listen and `ddprun status`"},
    RefusedName{"ps", kNoCommand,
                "`ddprun status` shows a run (a program of that name: `ddprun -- ps`)"},
    RefusedName{"list", kNoCommand,
                "`ddprun status` shows a run (a program of that name: `ddprun -- list`)"},
    RefusedName{"attach", kNoCommand,
                "`ddprun logs --follow` shows what workers print (a program of that name: `ddprun "
                "-- attach`)"},
    RefusedName{"cancel", kNoCommand,
                "`ddprun stop` ends a run (a program of that name: `ddprun -- cancel`)"},
    RefusedName{"restart", kNoCommand,
                "`ddprun stop --soon` ends a run after its workers have saved; then start it again "
                "(a program of that name: `ddprun -- restart`)"},
    RefusedName{"kill", kNoCommand,
                "`ddprun stop` ends a run (a program of that name: `ddprun -- kill`)"},
};

}  // namespace

std::optional<std::string> WhyRefused(const std::string& name) {
  const auto found = std::ranges::find(kRefused, name, &RefusedName::name);
  if (found == kRefused.end()) {
    return std::nullopt;
  }
  return name + found->why + found->instead;
}

Result<void> RefuseList(const std::string& endpoint) {
  if (endpoint.find(',') == std::string::npos) {
    return {};
  }
  return Error{ErrorKind::kInvalid, *WhyRefused(kListOfEndpoints)};
}

}  // namespace ddprun

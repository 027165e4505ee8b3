#include "agent/watch/memory_kills.h"

#include <signal.h>

#include <limits>
#include <optional>

#include "common/cgroup.h"

namespace ddprun {

std::uint64_t MemoryKills() {
  const std::optional<Cgroup> own = OwnCgroup("memory");
  const auto kills =
      own ? NumberAfter(own->folder / (own->unified ? "memory.events" : "memory.oom_control"),
                        "oom_kill")
          : std::nullopt;
  return kills.value_or(0);
}

std::uint64_t MemoryLimit() {
  const std::optional<Cgroup> own = OwnCgroup("memory");
  const auto limit =
      own ? NumberIn(own->folder / (own->unified ? "memory.max" : "memory.limit_in_bytes"))
          : std::nullopt;
  return limit.value_or(std::numeric_limits<std::uint64_t>::max());
}

FailureDetails WithMemoryKill(FailureDetails details, const ExitStatus& status,
                              std::uint64_t before) {
  const Killed* const killed = std::get_if<Killed>(&status);
  if (killed != nullptr && killed->signal == SIGKILL && details.message.empty() &&
      MemoryKills() > before) {
    details.message = kMemoryRanOut;
  }
  return details;
}

}  // namespace ddprun

#include "agent/watch/memory_kills.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "common/cgroup.h"

namespace ddprun {
namespace {

std::filesystem::path OwnOomCounter() {
  const std::optional<Cgroup> own = OwnCgroup("memory");
  return own ? own->folder / (own->unified ? "memory.events" : "memory.oom_control")
             : std::filesystem::path();
}

}  // namespace

std::uint64_t MemoryKills() {
  std::ifstream events(OwnOomCounter());
  std::string name;
  for (std::uint64_t count = 0; events >> name >> count;) {
    if (name == "oom_kill") {
      return count;
    }
  }
  return 0;
}

std::uint64_t MemoryLimit() {
  const std::filesystem::path counter = OwnOomCounter();
  const bool unified = counter.filename() == "memory.events";
  std::ifstream file(counter.parent_path() / (unified ? "memory.max" : "memory.limit_in_bytes"));
  std::uint64_t limit = 0;
  return file >> limit ? limit : std::numeric_limits<std::uint64_t>::max();  // "max"
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

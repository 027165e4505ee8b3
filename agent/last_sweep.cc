#include "agent/last_sweep.h"

#include <signal.h>

#include <new>
#include <thread>

#include "agent/workers/process_tree.h"

namespace ddprun {

// Whether nothing is left but what tidies up. Memory that cannot be had now may be had the next
// time.
bool SweepOnce(std::vector<pid_t>& living, const std::set<pid_t>& spared) {
  try {
    living = SweepChildren(spared, Reach::kEverybody);
    return living.empty() && NothingIsLeft(Reach::kEverybody, nullptr, spared);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool LetTidyUp(std::chrono::steady_clock::time_point deadline, const std::set<pid_t>& spared) {
  try {
    std::vector<pid_t> living = ReapChildren(spared, Reach::kEverybody);
    std::erase_if(living, [](pid_t pid) { return !TidiesUp(pid); });
    for (const pid_t pid : living) {
      if (std::chrono::steady_clock::now() >= deadline) {
        ::kill(pid, SIGKILL);
      }
    }
    return living.empty();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool KillAllDescendants(Duration limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!NothingIsLeft(Reach::kEverybody) || !LetTidyUp(end)) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace ddprun

#include "launcher/slurm/srun_watch.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "agent/host/interfaces.h"
#include "common/files.h"

namespace ddprun {
namespace {

constexpr Duration kPeriod{2'000};
constexpr std::size_t kMaxTable = 64 << 20;
constexpr std::string_view kListening = "0A";
constexpr int kMissesThatCount = 2;  // The kernel's table is no snapshot: a line may be missed.

bool SomebodyListens(std::uint16_t port) {
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const Result<std::string> table = ReadFile(path, kMaxTable);
    if (table && HasListener(*table, port)) {
      return true;
    }
  }
  return false;
}

}  // namespace

// "   3: 0100007F:9F05 00000000:0000 0A ...": number, local and remote address:port, state.
bool HasListener(std::string_view table, std::uint16_t port) {
  for (std::size_t begin = 0; begin < table.size();) {
    const std::size_t end = std::min(table.find('\n', begin), table.size());
    const std::string_view line = table.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t local = line.find(':', std::min(line.find(':') + 1, line.size()));
    if (local == std::string_view::npos || local + 5 > line.size()) {
      continue;
    }
    unsigned found = 0;
    std::from_chars(line.data() + local + 1, line.data() + local + 5, found, 16);
    const std::size_t remote = line.find(':', local + 1);
    if (found == port && remote != std::string_view::npos &&
        line.substr(std::min(remote + 6, line.size()), 2) == kListening) {
      return true;
    }
  }
  return false;
}

SrunWatch::SrunWatch(Loop& loop, const Endpoint& srun, std::function<void()> on_gone)
    : loop_(loop), port_(srun.port), on_gone_(std::move(on_gone)), timer_(loop) {
  if (InterfaceOfHost(srun.host) && SomebodyListens(port_)) {
    timer_.ArmAt(loop_.Now() + kPeriod, [this] { Look(); });
  }
}

void SrunWatch::Look() {
  missed_ = SomebodyListens(port_) ? 0 : missed_ + 1;
  if (missed_ == kMissesThatCount) {
    on_gone_();
    return;
  }
  timer_.ArmAt(loop_.Now() + kPeriod, [this] { Look(); });
}

}  // namespace ddprun

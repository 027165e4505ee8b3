#include "launcher/slurm/srun_watch.h"

#include <utility>

#include "agent/host/interfaces.h"
#include "rendezvous/listener/listen_socket.h"

namespace ddprun {
namespace {

constexpr Duration kPeriod{2'000};
constexpr int kMissesThatCount = 2;  // The kernel's table is no snapshot: a line may be missed.

bool SomebodyListens(std::uint16_t port) {
  return !ListenersOn(port).empty();
}

}  // namespace

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

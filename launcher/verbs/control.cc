#include "launcher/verbs/control.h"

#include "common/log.h"
#include "rendezvous/client_asks.h"

namespace ddprun {
namespace {

constexpr Duration kControlPatience{5'000};

}  // namespace

Result<std::string> AskFor(const ControlCommand& command) {
  ASSIGN_OR_RETURN(const ServerPlace place, FindServer(command.server));
  const ControlRequest asked{command.server.run_id, command.verb, command.node, place.access.token};
  ASSIGN_OR_RETURN(const std::string text, AskControl(place, asked, kControlPatience));
  return PrintableLine(text) + "\n";
}

}  // namespace ddprun

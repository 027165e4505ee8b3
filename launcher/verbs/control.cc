#include "launcher/verbs/control.h"

#include "common/log.h"
#include "launcher/print_out.h"
#include "rendezvous/client_asks.h"

namespace ddprun {
namespace {

constexpr Duration kControlPatience{5'000};

}  // namespace

int AskFor(const ControlCommand& command) {
  const char* const verb = command.verb == ControlVerb::kDrain ? "drain" : "stop";
  const Result<ServerPlace> place = FindServer(command.server);
  if (!place) {
    return PrintError(verb, place.error());
  }
  const ControlRequest asked{command.server.run_id, command.verb, command.node,
                             place->access.token};
  const Result<std::string> text = AskControl(*place, asked, kControlPatience);
  if (!text) {
    return PrintError(verb, text.error());
  }
  return PrintOut(PrintableLine(*text) + "\n");
}

}  // namespace ddprun

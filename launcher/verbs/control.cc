#include "launcher/verbs/control.h"

#include "common/log.h"
#include "launcher/print_out.h"
#include "rendezvous/client_asks.h"

namespace ddprun {
namespace {

constexpr Duration kControlPatience{5'000};

}  // namespace

int AskFor(const ControlWish& wish) {
  const char* const verb = wish.verb == ControlVerb::kDrain ? "drain" : "stop";
  const Result<ServerPlace> place = FindServer(wish.server);
  if (!place) {
    return PrintError(verb, place.error());
  }
  const ControlRequest asked{wish.server.run_id, wish.verb, wish.node, place->access.token};
  const Result<std::string> text = AskControl(*place, asked, kControlPatience);
  if (!text) {
    return PrintError(verb, text.error());
  }
  return PrintOut(PrintableLine(*text) + "\n");
}

}  // namespace ddprun

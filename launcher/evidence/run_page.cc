#include "launcher/evidence/run_page.h"

#include <algorithm>
#include <array>
#include <utility>

#include "launcher/watching/page.h"

namespace ddprun {
namespace {

// What the page's script takes for granted.
bool IsRunState(const OrderedJson& state) {
  constexpr std::array kTexts{"run_id", "phase", "headline", "outcome", "version", "node"};
  constexpr std::array kLists{"nodes", "startups", "events", "training"};
  const auto has = [&state](const char* name, OrderedJson::value_t type) {
    const auto found = state.find(name);
    return found != state.end() && found->type() == type;
  };
  const auto number = [&state](const char* name) {
    const auto found = state.find(name);
    return found != state.end() && found->is_number();
  };
  return state.is_object() && number("unix_time") &&
         std::ranges::all_of(
             kTexts, [&](const char* name) { return has(name, OrderedJson::value_t::string); }) &&
         std::ranges::all_of(
             kLists, [&](const char* name) { return has(name, OrderedJson::value_t::array); });
}

std::string PageOfParts(OrderedJson state) {
  OrderedJson all;
  for (const char* const part : {"events", "training"}) {
    all[part] = std::move(state[part]);
    state.erase(part);
  }
  all["unix_time"] = state.value("unix_time", 0.0);
  all["state"] = {{"version", state.value("version", "")}, {"node", state.value("node", "")}};
  all["state"]["run"] = std::move(state);
  return PageWith(JsonText(all));
}

}  // namespace

std::string RunPage(const RunStory& story) {
  OrderedJson state = StateInJson(story);
  state["events"] = OrderedJson::array();
  for (const RunEvent& event : story.events) {
    state["events"].push_back(EventInJson(event));
  }
  return PageOfParts(std::move(state));
}

Result<std::string> PageOfState(OrderedJson state) {
  if (!IsRunState(state)) {
    return Error{ErrorKind::kInvalid, "it does not say what became of a run"};
  }
  return PageOfParts(std::move(state));
}

}  // namespace ddprun

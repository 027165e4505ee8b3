#include "launcher/environment/launch_place.h"

#include <algorithm>

#include "common/log.h"
#include "common/text.h"
#include "launcher/environment/reading.h"

namespace ddprun {

std::string Encode(const LaunchPlace& place) {
  return (place.index   ? std::to_string(*place.index)
          : place.joins ? (place.followed ? "+" : "*")
                        : "-") +
         " " + place.node + " " + Joined(place.hosts, ",") +
         (place.word.empty() ? "" : " " + place.word);
}

Result<std::optional<LaunchContext>> ReadLaunchPlace(const ContextQuery& query) {
  const std::optional<std::string> text = Text(query, kLaunchPlace);
  if (!text) {
    return std::optional<LaunchContext>();
  }
  const std::vector<std::string> words = Split(*text, ' ');
  const bool whole = words.size() == 3 || words.size() == 4;
  const std::vector<std::string> hosts = Split(whole ? words[2] : "", ',');
  const bool followed = !words.empty() && words[0] == "+";
  const bool joins = followed || (!words.empty() && words[0] == "*");
  const bool placed = !words.empty() && words[0] != "-" && !joins;
  const auto index = ParseNumber<std::uint32_t>(placed ? words[0] : "0");
  if (hosts.empty() || words[1].empty() || !index || *index >= hosts.size()) {
    return Invalid("the environment variable " + std::string(kLaunchPlace) +
                       " must be an index, a node's name and hosts",
                   InOneLine(*text));
  }
  LaunchContext context{.scheduler = Scheduler::kHosts, .name = "ddprun --hosts"};
  context.line = "started by ddprun --hosts as " + words[1] + ", one of " +
                 std::to_string(hosts.size()) + (hosts.size() == 1 ? " host" : " hosts");
  if (joins) {
    context.name = "ddprun daemon";
    context.line = "started by the ddprun daemon " + words[1];
    context.joins = true;
    context.followed = followed;
  }
  context.node = words[1];
  context.hosts = hosts;
  context.word = words.size() == 4 ? words[3] : "";
  if (placed) {
    context.index = *index;
    context.on_first_node = *index == 0;
    context.derived_port = true;
  }
  return std::optional(std::move(context));
}

}  // namespace ddprun

// The place of a node that `ddprun --hosts` or a daemon starts, told to the node in one variable.
//
//   "1 n2 n1,n2,n3 w"  the second of three nodes, called n2; the node with place 0 hosts the
//   server.
//                      Its launcher hears of the run's end by the word w
//   "- n2 n1,n2,n3 w"  the user has said where the nodes meet: no place is given
//   "+ n2 n2"          the node of a daemon: it joins the server of the pool, and never serves; its
//                      launch follows what it prints
//   "* n2 n2"          the same, but no launch follows it
//
// Everything else comes as flags of the node's command line, so neither variables of a scheduler
// nor a settings file of that host count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/environment/launch_context.h"

namespace ddprun {

inline constexpr const char* kLaunchPlace = "DDPRUN_LAUNCH_PLACE";

struct LaunchPlace {
  std::optional<std::uint32_t> index;
  std::string node;
  std::vector<std::string> hosts;
  std::string word = {};
  bool joins = false;     // The server of a pool.
  bool followed = false;  // And its launch prints what the workers print.
};

std::string Encode(const LaunchPlace& place);

// nullopt: this process was not started so. kInvalid: the variable is not of this form.
Result<std::optional<LaunchContext>> ReadLaunchPlace(const ContextQuery& query);

}  // namespace ddprun

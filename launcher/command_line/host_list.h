// The hosts on which a run is to be started, as people write them: --hosts=n1,n2:4,user@n3 and
// --hostfile=FILE, in Open MPI's syntax. Parsing only: no name is looked up, no file is read.
//
// A name is for ssh's command line, so it has no odd character and does not begin like an option.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace ddprun {

struct LaunchHost {
  std::string address;                   // The argument of ssh: "user@n3"; no brackets.
  std::string name;                      // "n3": this node's name, and how other nodes reach it.
  std::optional<std::uint32_t> workers;  // Its slots; none: --nproc-per-node says.
  std::uint32_t most_workers = 0;        // Its max_slots; 0: no bound.
  bool operator==(const LaunchHost&) const = default;
};

// "n1,n2:4,user@n3,[fd00::1]:2". A host that is named several times has the sum of its slots, one
// for each time without a number. The errors are for people, all kInvalid; they name no flag.
Result<std::vector<LaunchHost>> ParseHosts(std::string_view text);

// One host a line, with "slots=4" and "max_slots=8" after it (or ":4"); # begins a comment. `name`:
// the file's, for the error.
Result<std::vector<LaunchHost>> ParseHostfile(const std::string& name, std::string_view text);

}  // namespace ddprun

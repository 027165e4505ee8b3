// What earlier versions knew and this one does not: verbs and flags, and what to use instead.
//
// A name stays here for one release. It is refused (exit 2) with what replaces it: without its row
// a removed verb would start a program of that name.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

// `name` as it was written: "verb", "--flag". Nothing: it was never removed.
std::optional<std::string> WhyRemoved(const std::string& name);

}  // namespace ddprun

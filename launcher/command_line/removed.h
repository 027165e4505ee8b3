// What earlier versions knew and this one does not: verbs and flags, and what to use instead.
//
// A name stays here for one release. It is refused (exit 2) with what replaces it: without its row
// a removed verb would start a program of that name.
#pragma once

#include <optional>
#include <string>

#include "common/result.h"

namespace ddprun {

inline constexpr const char* kListOfEndpoints = "a list of endpoints (--rdzv-endpoint=A,B,C)";

// `name` as it was written: "verb", "--flag". Nothing: it was never removed.
std::optional<std::string> WhyRemoved(const std::string& name);

// The value of --rdzv-endpoint, or of a verb's --endpoint. kInvalid: a list.
Result<void> RefuseList(const std::string& endpoint);

}  // namespace ddprun

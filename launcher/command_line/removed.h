// Names that are refused (exit 2) with what to use instead: verbs and flags of earlier versions,
// and commands of other tools.
//
// A removed name stays here for one release: 0.3.0 drops the names that 0.2.0 removed. Without its
// row such a verb would start a program of that name: `ddprun ps` would print the processes of this
// machine once for each worker.
#pragma once

#include <optional>
#include <string>

#include "common/result.h"

namespace ddprun {

inline constexpr const char* kListOfEndpoints = "a list of endpoints (--rdzv-endpoint=A,B,C)";

// `name` as it was written: "verb", "--flag". Nothing: it is not in the table.
std::optional<std::string> WhyRefused(const std::string& name);

// The value of --rdzv-endpoint, or of a verb's --endpoint. kInvalid: a list.
Result<void> RefuseList(const std::string& endpoint);

}  // namespace ddprun

// Turns the result of a command that checks this machine (--node-check) into a verdict.
//
// Pure. Exit code 0 is a pass, whatever was printed; else the last line that was printed is why,
// made printable and at most kMaxUnfit bytes long.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/exit_status.h"
#include "common/time.h"

namespace ddprun {

// Of what a check prints, its end.
inline constexpr std::size_t kKeptCheckOutput = 4'096;

struct CheckOutcome {
  std::string error;                 // It could not be run; empty: it was.
  std::optional<ExitStatus> status;  // None: it was killed at its limit.
  std::string output;                // The end of its stdout and stderr.
};

// Keeps the end.
void AppendCheckOutput(std::string& output, std::string_view bytes);

// Why the node is unfit; empty: it passes.
std::string VerdictOf(const CheckOutcome& outcome, Duration limit);

}  // namespace ddprun

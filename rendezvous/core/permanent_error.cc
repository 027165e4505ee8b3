#include "rendezvous/core/permanent_error.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/text.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostCompared = 256;  // Bytes of a line.

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// "ModuleNotFoundError: No module named 'x'", with or without a module before the type.
bool IsOfPermanentType(std::string_view line) {
  constexpr std::array<std::string_view, 7> kTypes = {
      "ImportError", "ModuleNotFoundError", "SyntaxError",      "IndentationError",
      "TabError",    "NameError",           "UnboundLocalError"};
  std::string_view type = line.substr(0, line.find_first_of(":\n"));
  type = type.substr(type.find_last_of('.') + 1);  // All of it without a dot.
  return std::ranges::find(kTypes, type) != kTypes.end();
}

// As argparse and click refuse a command line: "usage: ..." begins a line, and the last line is the
// error. A line such as "GPU memory usage: 43%" is none.
bool IsUsageError(std::string_view text, std::string_view last_line) {
  const std::string lower = "\n" + Lowercase(std::string(text));
  return Contains(lower, "\nusage:") && Contains(Lowercase(std::string(last_line)), "error:");
}

// "/usr/bin/python3: No module named x", as `python3 -m x` says it.
bool LacksItsModule(std::string_view line) {
  const std::size_t at = line.find(": No module named ");
  const std::string_view program = line.substr(0, at == std::string_view::npos ? 0 : at);
  const std::string_view name = program.substr(program.find_last_of('/') + 1);
  return name.starts_with("python") && !Contains(name, " ");
}

}  // namespace

std::string PermanentError(const WorkerFailure& failure) {
  const auto compared = [](std::string_view line) {
    return std::string(line.substr(0, kMostCompared));
  };
  if (!failure.hang.empty()) {
    return "";
  }
  if (!failure.details.message.empty()) {
    return IsOfPermanentType(failure.details.message) ? compared(failure.details.message) : "";
  }
  const Exited* const exited = std::get_if<Exited>(&failure.status);
  if (exited == nullptr) {
    return "";
  }
  const std::string_view line = LastLineOf(failure.last_lines);
  switch (exited->code) {
    case 1:
      return IsOfPermanentType(line) || LacksItsModule(line) ? compared(line) : "";
    case 2:
      return IsUsageError(failure.last_lines, line) ||
                     (Contains(line, "can't open file") && Contains(line, "[Errno 2]"))
                 ? compared(line)
                 : "";
    case 126:
    case 127:
      return "exit code " + std::to_string(exited->code) + " " + compared(line);
    default:
      return "";
  }
}

}  // namespace ddprun

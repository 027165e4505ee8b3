#include "rendezvous/listener/few_lines.h"

#include <algorithm>

namespace ddprun {

bool FewLines::Admits(std::string_view reason, Time now) {
  auto found = windows_.find(reason);
  if (found == windows_.end() && windows_.size() >= kMostReasons) {
    reason = "other reasons";
    found = windows_.find(reason);
  }
  if (found == windows_.end()) {
    found = windows_.emplace(reason, Window{now + kLinesCount}).first;
  }
  return ++found->second.lines <= kLinesOfAReason;
}

std::vector<std::string> FewLines::Rest(Time now) {
  std::vector<std::string> rest;
  std::erase_if(windows_, [&](const auto& entry) {
    const auto& [reason, window] = entry;
    if (window.until > now) {
      return false;
    }
    if (window.lines > kLinesOfAReason) {
      rest.push_back(reason + " (" + std::to_string(window.lines - kLinesOfAReason) +
                     (window.lines == kLinesOfAReason + 1 ? " time more)" : " times more)"));
    }
    return true;
  });
  return rest;
}

std::optional<Time> FewLines::NextRest() const {
  std::optional<Time> next;
  for (const auto& [reason, window] : windows_) {
    next = next ? std::min(*next, window.until) : window.until;
  }
  return next;
}

bool FewLogLines::Say(LogLevel level, std::string_view reason, std::string_view line) {
  const bool first = !lines_.NextRest();
  const bool said = reason.empty() || lines_.Admits(reason, loop_.Now());
  if (said) {
    Log(level, line);
  }
  if (first) {
    Arm();
  }
  return said;
}

void FewLogLines::Arm() {
  rest_.ArmAt(lines_.NextRest(), [this] {
    for (const std::string& line : lines_.Rest(loop_.Now())) {
      Log(LogLevel::kWarning, line);
    }
    Arm();
  });
}

}  // namespace ddprun

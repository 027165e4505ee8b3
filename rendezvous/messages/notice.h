// A core's message to people, for its driver to log.
#pragma once

#include <string>

namespace ddprun {

enum class NoticeLevel { kDetail = 1, kInfo, kWarning };
struct Notice {
  NoticeLevel level = NoticeLevel::kInfo;
  std::string text;
  std::string reason = {};  // Not empty: any peer may cause many of these, and few are logged.
  bool operator==(const Notice&) const = default;
};

}  // namespace ddprun

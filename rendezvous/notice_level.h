// How loud the log says what a core wants said.
#pragma once

#include "common/log.h"
#include "rendezvous/messages/notice.h"

namespace ddprun {

inline LogLevel LevelOf(NoticeLevel level) {
  return level == NoticeLevel::kDetail ? LogLevel::kDebug
         : level == NoticeLevel::kInfo ? LogLevel::kInfo
                                       : LogLevel::kWarning;
}

}  // namespace ddprun

// Which value is which number on the wire, one table per enum; for this folder only.
#pragma once

#include <array>
#include <utility>

#include "proto/rendezvous.pb.h"
#include "rendezvous/core/control.h"
#include "rendezvous/messages/messages.h"
#include "rendezvous/messages/operator_request.h"
#include "rendezvous/messages/pool_messages.h"

namespace ddprun {

template <class Value, class Wire, std::size_t kSize>
using Names = std::array<std::pair<Value, Wire>, kSize>;

inline constexpr Names<WaitFor, v1::WaitFor, 17> kWaitFor{{
    {WaitFor::kNodes, v1::WAIT_FOR_NODES},
    {WaitFor::kLastCall, v1::WAIT_FOR_LAST_CALL},
    {WaitFor::kDrain, v1::WAIT_FOR_DRAIN},
    {WaitFor::kPeers, v1::WAIT_FOR_PEERS},
    {WaitFor::kSpare, v1::WAIT_FOR_SPARE},
    {WaitFor::kSettling, v1::WAIT_FOR_SETTLING},
    {WaitFor::kHeldBack, v1::WAIT_FOR_HELD_BACK},
    {WaitFor::kNoGrowth, v1::WAIT_FOR_NO_GROWTH},
    {WaitFor::kFinishing, v1::WAIT_FOR_FINISHING},
    {WaitFor::kEarlierSelf, v1::WAIT_FOR_EARLIER_SELF},
    {WaitFor::kRecovery, v1::WAIT_FOR_RECOVERY},
    {WaitFor::kClaim, v1::WAIT_FOR_CLAIM},
    {WaitFor::kOutcomeKept, v1::WAIT_FOR_OUTCOME_KEPT},
    {WaitFor::kRoom, v1::WAIT_FOR_ROOM},
    {WaitFor::kBackoff, v1::WAIT_FOR_BACKOFF},
    {WaitFor::kCheck, v1::WAIT_FOR_CHECK},
    {WaitFor::kUnfit, v1::WAIT_FOR_UNFIT},
}};
inline constexpr Names<StopCause, v1::StopCause, 8> kStopCause{{
    {StopCause::kFailure, v1::STOP_CAUSE_FAILURE},
    {StopCause::kNodeLost, v1::STOP_CAUSE_NODE_LOST},
    {StopCause::kDeclaredLost, v1::STOP_CAUSE_DECLARED_LOST},
    {StopCause::kScaleUp, v1::STOP_CAUSE_SCALE_UP},
    {StopCause::kLeave, v1::STOP_CAUSE_LEAVE},
    {StopCause::kOperator, v1::STOP_CAUSE_OPERATOR},
    {StopCause::kSuperseded, v1::STOP_CAUSE_SUPERSEDED},
    {StopCause::kHang, v1::STOP_CAUSE_HANG},
}};
inline constexpr Names<Ending, v1::Ending, 5> kEnding{{
    {Ending::kSucceeded, v1::ENDING_SUCCEEDED},
    {Ending::kFailed, v1::ENDING_FAILED},
    {Ending::kLeft, v1::ENDING_LEFT},
    {Ending::kRefused, v1::ENDING_REFUSED},
    {Ending::kEnded, v1::ENDING_ENDED},
}};
inline constexpr Names<Hosting, v1::Hosting, 3> kHosting{{
    {Hosting::kNothing, v1::HOSTING_NOTHING},
    {Hosting::kWorkers, v1::HOSTING_WORKERS},
    {Hosting::kStopping, v1::HOSTING_STOPPING},
}};
inline constexpr Names<Outcome, v1::Outcome, 5> kOutcome{{
    {Outcome::kNone, v1::OUTCOME_NONE},
    {Outcome::kSucceeded, v1::OUTCOME_SUCCEEDED},
    {Outcome::kFailed, v1::OUTCOME_FAILED},
    {Outcome::kStopped, v1::OUTCOME_STOPPED},
    {Outcome::kSpawnFailed, v1::OUTCOME_SPAWN_FAILED},
}};
inline constexpr Names<Leaving, v1::Leaving, 3> kLeaving{{
    {Leaving::kNo, v1::LEAVING_NO},
    {Leaving::kLeave, v1::LEAVING_LEAVE},
    {Leaving::kStopRun, v1::LEAVING_STOP_RUN},
}};
inline constexpr Names<NoticeLevel, v1::NoticeLevel, 3> kNoticeLevel{{
    {NoticeLevel::kDetail, v1::NOTICE_LEVEL_DETAIL},
    {NoticeLevel::kInfo, v1::NOTICE_LEVEL_INFO},
    {NoticeLevel::kWarning, v1::NOTICE_LEVEL_WARNING},
}};
inline constexpr Names<RequestKind, v1::RequestKind, 5> kRequestKind{{
    {RequestKind::kLogs, v1::REQUEST_KIND_LOGS},
    {RequestKind::kStacks, v1::REQUEST_KIND_STACKS},
    {RequestKind::kSave, v1::REQUEST_KIND_SAVE},
    {RequestKind::kStopSoon, v1::REQUEST_KIND_STOP_SOON},
    {RequestKind::kEvidence, v1::REQUEST_KIND_EVIDENCE},
}};
inline constexpr Names<ControlVerb, v1::ControlVerb, 2> kControlVerb{{
    {ControlVerb::kDrain, v1::CONTROL_VERB_DRAIN},
    {ControlVerb::kStop, v1::CONTROL_VERB_STOP},
}};
inline constexpr Names<PoolRunPhase, v1::PoolRunPhase, 4> kPoolRunPhase{{
    {PoolRunPhase::kWaits, v1::POOL_RUN_PHASE_WAITS},
    {PoolRunPhase::kRuns, v1::POOL_RUN_PHASE_RUNS},
    {PoolRunPhase::kEnds, v1::POOL_RUN_PHASE_ENDS},
    {PoolRunPhase::kOver, v1::POOL_RUN_PHASE_OVER},
}};

}  // namespace ddprun

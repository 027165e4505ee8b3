// Asks NCCL's RAS, as its own client ncclras does: a TCP connection to NCCL_RAS_ADDR, a line for
// each wish, each but the last answered by a line, the last by all that there is and the end.
//
//   CLIENT PROTOCOL 2   -> SERVER PROTOCOL 2
//   TIMEOUT 1           -> OK                 so long it waits for processes that do not answer
//   SET FORMAT json     -> OK                 before 2.28.7 "ERROR: ...": it has text alone
//   MONITOR ?           -> ERROR: Invalid ... what a version says that knows the word (2.30.7 does,
//                                             2.28.9 does not); asked of who is to go on
//   STATUS              -> ...
//
// Every process of NCCL listens there (SO_REUSEPORT), and any of them answers for the whole job.
// One that is stopped does not, so who hears nothing at once tries another connection.
//
// Blocks, until the deadline: for threads. Trusts nothing: whoever listens there, no more than
// kMostRasBytes are taken.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/watch/nccl_ras.h"
#include "common/files.h"
#include "common/result.h"

namespace ddprun {

inline constexpr std::size_t kMostRasBytes = std::size_t{4} << 20;

// Where the RAS of this agent's workers listens: a port of this host that no other agent has, and
// that nobody else gets while this lives. It is bound, as NCCL's processes of the same user may do
// too, and never listened on.
struct RasPlace {
  UniqueFd held;
  std::string address;  // "127.0.0.1:41231"; empty: it is off, or none could be had.
};

// What the user has set (NCCL_RAS_ADDR, NCCL_RAS_ENABLE=0) stays.
RasPlace RasPlaceIn(const std::map<std::string, std::string>& environment);

struct RasText {
  bool json = false;
  std::string text;
};

// kRefused: it is to go on, and was not asked, being as old as those that may die of it (2.28.9 and
// before, by what they know).
Result<RasText> AskRas(const std::string& address, bool goes_on,
                       std::chrono::steady_clock::time_point deadline);

struct RasWorker {
  pid_t pid = 0;
  std::uint32_t local_rank = 0;
};

// Which processes of an answer are these workers or their descendants, on this host: whoever else
// shares the address answers of others. By local rank.
std::map<std::uint32_t, std::vector<RasProcess>> OwnProcesses(
    const RasAnswer& answer, const std::vector<RasWorker>& workers);

}  // namespace ddprun

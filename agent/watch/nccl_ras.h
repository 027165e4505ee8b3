// What NCCL's RAS says of a job: its communicators, and of each of their ranks the process, its
// state and how many collectives of each kind it has begun. (NCCL 2.24 and later; JSON from 2.28.7
// on, where 2.28.9 forgets a comma.)
//
// Pure. The text is a stranger's: whatever it is, it is bounded, and names are made printable.
//
// Equal counts prove nothing: a kernel may be stuck that all have begun, and communicators within
// one node are not counted by some versions (all 0, from 2.27 on). So only a difference says
// something.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.h"

namespace ddprun {

enum class RasState {
  kRunning,
  kStarting,
  kEnding,
  kAborted,
  kMissing,  // It did not answer, or is no member any more.
  kDead,
};

// Host (as NCCL's network knows it: an address) and process.
using RasProcess = std::pair<std::string, std::int64_t>;

struct RasRank {
  std::uint32_t rank = 0;  // In its communicator.
  RasProcess process;
  RasState state = RasState::kRunning;
  std::map<std::string, std::uint64_t> counts;  // "AllReduce": 641; of one that is missing none.
  auto operator<=>(const RasRank&) const = default;
};

struct RasCommunicator {
  std::string name;
  std::uint32_t size = 0;
  std::vector<RasRank> ranks;  // In order.
  auto operator<=>(const RasCommunicator&) const = default;
};

struct RasAnswer {
  std::string version;                         // "2.29.7"
  std::vector<RasCommunicator> communicators;  // In order, so that answers can be compared.
};

// kInvalid: it is none.
Result<RasAnswer> ParseRas(std::string_view text);

// Who is asked again and again must be sound: until 2.29.2 an answer could end the process that
// gave it (nccl #1669, #1762).
bool MayBeAskedOften(const std::string& version);

// Of one communicator in words, the few by name, whichever side they are on, and of what they have
// begun only what differs: "62 ranks: AllReduce 641; 2 ranks: AllReduce 640: rank 12 and 13 on n3".
// First those in which ranks differ; those in which nobody does are one line.
std::vector<std::string> GroupsInWords(const RasAnswer& answer, std::uint32_t world_size);

// One process, as far as hangs are judged (rendezvous/core/hang.h).
struct RasProgress {
  std::uint64_t collectives = 0;        // Begun in all,
  std::uint64_t world_collectives = 0;  // of these in the communicator of all ranks.
  bool waits = false;                   // It has begun one that another has not.
  bool operator==(const RasProgress&) const = default;
};

// Nothing unless one communicator has all ranks (else an answer is not the job's), every rank of
// all of them is there and running, and in one of them they have begun different numbers.
std::map<RasProcess, RasProgress> ProgressThatDiffers(const RasAnswer& answer,
                                                      std::uint32_t world_size);

}  // namespace ddprun

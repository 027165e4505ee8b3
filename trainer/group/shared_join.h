// How ranks find out that they share memory, and come to use it.
//
// Host names prove nothing. So the other ranks open rank 0's anonymous memory file by its number in
// rank 0's process. Only processes of one machine, one PID namespace and one user can do that. The
// file must have the random name that rank 0 gave it. The file has no place in the file system, so
// no death of a rank leaves anything behind. All ranks get the same answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "common/result.h"
#include "trainer/group/shared_world.h"

namespace ddprun {

// The texts that ranks leave for each other; they lie in the generation's store.
class Board {
 public:
  virtual ~Board() = default;
  virtual Result<void> Set(const std::string& key, const std::string& text) = 0;
  // Waits until a rank has set the key.
  virtual Result<std::string> Get(const std::string& key) = 0;
};

struct SharedOutcome {
  std::unique_ptr<SharedWorld> world;  // Null if the ranks do not share memory.
  std::string why_not;                 // Why `world` is null; empty if it is not.
};

inline constexpr std::size_t kMostSharedRanks = 128;

// Called by all ranks once per board. An error: the board failed.
Result<SharedOutcome> JoinShared(Board& board, std::size_t rank, std::size_t size,
                                 std::chrono::milliseconds timeout);

}  // namespace ddprun

// How ranks find out that they share memory, and come to use it.
//
// Proved, not guessed from names: the others open rank 0's anonymous memory file by its number in
// rank 0's process, which only processes of one machine (and PID namespace) and one user can do; it
// must have the random name that rank 0 gave it. Nothing has a name in the file system, so nothing
// is left behind whoever dies when. All ranks get the same answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "common/result.h"
#include "trainer/group/shared_world.h"

namespace ddprun {

// Where ranks leave texts for each other: the generation's store.
class Board {
 public:
  virtual ~Board() = default;
  virtual Result<void> Set(const std::string& key, const std::string& text) = 0;
  // Waits until it is there.
  virtual Result<std::string> Get(const std::string& key) = 0;
};

struct SharedOutcome {
  std::unique_ptr<SharedWorld> world;  // Null: they do not share memory,
  std::string why_not;                 // for this reason.
};

inline constexpr std::size_t kMostSharedRanks = 128;

// Called by all ranks once per board. An error: the board failed.
Result<SharedOutcome> JoinShared(Board& board, std::size_t rank, std::size_t size,
                                 std::chrono::milliseconds timeout);

}  // namespace ddprun

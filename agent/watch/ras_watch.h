// Where workers tell nothing of their progress, NCCL's RAS is asked for it, slowly: what all ranks
// have begun, some another number than others, while nobody begins anything, is told like torch's
// counts (COLLECTIVES, IN_COLLECTIVE), and taken back as soon as that is over. Of a run that goes
// well nothing is told.
//
//   60 s after the start, then each sixth of --hang-timeout, 5 s at least -> asked on a thread
//   -> three answers that say the same, and prove a difference (ProgressThatDiffers) -> told
//   -> another answer, or none -> told no more (COLLECTIVES=0)
//
// So what is told has stood for two of these times before, and whoever is judged by it has stood
// for --hang-timeout by answers alone. Not asked: a world of one rank; where the place is the
// user's, since anybody may sit there; with DDPRUN_WATCH=0; where --hang-timeout is below 30 s, or
// 1.5 s for each node; of workers that speak for themselves; from then on, a version that may die
// of it (AskRas, MayBeAskedOften); in this world, who was there and has not answered three times in
// a row.
//
// Lives on the loop. An error of it is nobody's but its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/watch/nccl_ras.h"
#include "agent/watch/ras_client.h"
#include "common/loop.h"
#include "proto/notify.h"

namespace ddprun {

struct RasReading {
  RasAnswer answer;
  std::map<std::uint32_t, std::vector<RasProcess>> own;  // By local rank.
};

// What one answer after the other proves. Pure.
class RasJudge {
 public:
  static constexpr int kSame = 3;

  // Of this node's workers, by local rank: how far they are. Empty: nothing is proven.
  std::map<std::uint32_t, RasProgress> Take(RasReading reading, std::uint32_t world_size);
  void Forget() { same_ = 0; }
  const RasAnswer& last() const { return last_.answer; }

 private:
  RasReading last_;
  int same_ = 0;
};

struct RasTimes {
  Duration first{0};  // From the start.
  Duration each{0};
};

// Of this node of so many; they take turns, since each answer is gathered from all. None: the
// time-out is too short for that, or anybody may sit at the place, and what is said there stops
// nobody.
std::optional<RasTimes> RasTimesFor(const RasPlace& place, Duration hang_timeout,
                                    std::uint32_t node, std::uint32_t nodes);

class RasWatch {
 public:
  struct World {
    std::uint32_t size = 0;
    std::uint32_t workers = 0;  // Of this node.
    bool says = false;          // People hear of it here.
  };
  // On a thread, and bounded by itself.
  using Ask = std::function<Result<RasReading>()>;
  using Told = std::function<void(std::uint32_t local_rank, const Notification&)>;

  RasWatch(Loop& loop, Told told);
  ~RasWatch();
  RasWatch(const RasWatch&) = delete;
  RasWatch& operator=(const RasWatch&) = delete;

  void Begin(const World& world, const RasTimes& times, Ask ask);
  // It speaks for itself, or has ended. What was told of it is taken back.
  void LeaveOut(std::uint32_t local_rank);
  // The workers may go on: the same of all of them, later.
  void Pause();
  // They end, and what was told with them.
  void End();

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with what is under way.
};

// The one way to ask: AskRas, ParseRas, OwnProcesses.
RasWatch::Ask AskOfWorkers(std::string address, std::vector<RasWorker> workers);

}  // namespace ddprun

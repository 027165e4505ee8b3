// A node's end of the road: keeps a second call parked at the server, and carries out what comes as
// an answer to it.
//
//   parked --a list--> jobs of errands that are new; jobs that are not in it are dropped
//   parked --a job's piece--> sent with a call of its own, which is answered at once --> parked
//   any --a call failed--> a moment (1 s, then up to 30) --> parked, with what was not taken yet
//
// A piece that may not have arrived is sent again until it is taken: its number makes that
// harmless. Bounded: kMostAsks jobs, one piece of each, 50 calls a second, so that the reports on
// the same connection are never refused for it. Lives on the loop; decides nothing about the node.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agent/road/errand_job.h"
#include "common/loop.h"
#include "rendezvous/transport.h"

namespace ddprun {

class Road {
 public:
  static constexpr Duration kPause{20};           // Between two calls.
  static constexpr Duration kPieceLimit{30'000};  // For the answer to a piece.
  // A parked one is sent anew after so long: who should have answered may have forgotten it.
  static constexpr Duration kParkLimit{120'000};
  static constexpr Duration kBegin{200};  // The first report has been answered, most likely.
  static constexpr Duration kFirstRetry{1'000};
  static constexpr Duration kLastRetry{30'000};

  // `self`: which membership this is now. The channel outlives it.
  Road(Loop& loop, SyncChannel& channel, std::function<RoadName()> self, MakeErrandJob make);
  ~Road();
  Road(const Road&) = delete;
  Road& operator=(const Road&) = delete;

  void Start();

  // This node's part in the run is over, and its jobs will end by themselves: `done` once all that
  // they have is told, or the limit is over; at once where nobody has asked.
  void Finish(Duration limit, std::function<void()> done);

 private:
  struct Job {
    Errand errand;
    std::unique_ptr<ErrandJob> work;
    std::uint64_t made = 0;            // Pieces.
    bool asked = false;                // For the next one.
    std::optional<ErrandPiece> piece;  // Until it is taken.
    bool sent = false;
  };
  void SpeakAt(Time when);
  void Speak();
  void OnReply(Result<RoadReply> reply);
  void OnList(const RoadReply& reply);
  void Go(std::uint64_t id, Job& job);
  void OnPiece(std::uint64_t id, JobPiece piece);
  void EndIfTold();

  Loop& loop_;
  SyncChannel& channel_;
  const std::function<RoadName()> self_;
  const MakeErrandJob make_;
  LoopTimer timer_;
  std::map<std::uint64_t, Job> jobs_;
  std::uint64_t edition_ = 0;
  bool carries_ = false;  // The open call has a piece: the next one waits for its answer.
  std::uint64_t carried_ = 0;
  Duration retry_ = kFirstRetry;
  Time spoke_{};
  std::uint64_t calls_ = 0;
  LoopTimer finish_;
  std::function<void()> finished_;  // Empty: the run goes on.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ddprun

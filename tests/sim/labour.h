// What the workers of a world do in histories of slow work (--slow): they prepare, join, and meet
// in one collective after another. Between these they work, perhaps for longer than --hang-timeout;
// one of them may hang. And what is told of each: its own words, what rank 0 prints, or its
// collectives as launcher/python/_ddprun_watch.py tells them, once a second.
//
// Whoever only works must never be taken for hung; who hangs must be found, in time, and named
// where collectives tell.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/time.h"
#include "proto/notify.h"
#include "rendezvous/messages/messages.h"

namespace ddprun::sim {

class Simulation;

enum class Heard { kTold, kPrinted, kCollectives };

struct SlowWork {
  enum Kind : std::uint64_t { kOneRank, kCompile, kSave, kPrepare, kEnd, kKinds };
  Kind kind = kOneRank;
  Heard heard = Heard::kCollectives;
  std::uint64_t steps = 20;
  std::uint32_t slow_rank = 0;
  Duration longest{0};  // That nobody announces, while others wait.
  std::optional<std::uint32_t> hangs;
  Duration hangs_after{0};  // Of the world's beginning.
};

class Labour {
 public:
  using Tell = std::function<void(const Notification&)>;

  Labour(Simulation& simulation, std::uint32_t ranks);

  void Join(std::uint32_t rank, Tell tell, std::function<void(Duration lasts)> end);
  // It is no more.
  void Leave(std::uint32_t rank);

  bool hung() const { return hung_.has_value(); }
  // The world is stopped as hung, or the run is over: what is wrong with that; empty: nothing.
  std::string Found(Time now) const;
  std::string WrongEnd(const std::optional<WorkerFailure>& root, bool succeeded) const;

 private:
  struct Hand {
    bool there = false, joining = false, waits = false, waited = false, hung = false;
    std::uint64_t begun = 0;
    std::optional<std::pair<std::uint64_t, bool>> told;
    Time moved;
    Tell tell;
    std::function<void(Duration)> end;
  };

  void After(std::uint32_t rank, Duration delay, void (Labour::*what)(std::uint32_t));
  void Arrive(std::uint32_t rank);
  void Enter(std::uint32_t rank);
  void Release();
  void Work(std::uint32_t rank);
  void End(std::uint32_t rank);
  void Hang();
  void Watch(std::uint32_t rank);
  void Look(Hand& hand);
  Duration LengthOf(std::uint32_t rank, std::uint64_t step);

  Simulation& simulation_;
  const SlowWork slow_;
  std::vector<Hand> hands_;
  std::optional<Time> hung_;
};

}  // namespace ddprun::sim

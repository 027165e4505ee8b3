// The stacks of workers that continue to run, for operators: in memory, so that no disk is needed;
// taken by the children that take hung workers' (stack_taker.h), which hold no worker that they
// could harm.
//
// One taking at a time, the others wait. Bounded in time: 10 s for a worker and some 40 s
// for all of a node; in memory: kMostOfOne for each worker. Lives on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "agent/watch/stack_taker.h"
#include "common/loop.h"
#include "rendezvous/messages/answer_records.h"

namespace ddprun {

class LiveStacks {
 public:
  static constexpr std::size_t kMostOfOne = std::size_t{1} << 20;
  static constexpr std::size_t kMostOfAll = std::size_t{16} << 20;

  struct Target {
    StackJob job;  // Its title, output and `live` are set here.
    std::uint32_t rank = 0;
    std::uint64_t generation = 0;
  };
  using Done = std::function<void(std::vector<AnswerRecord>)>;

  // `program`: StackTaker's.
  LiveStacks(Loop& loop, std::string program);

  // `done` comes once, on the loop, later: a record for each of them, without a text where it went
  // to a file. The request's number.
  std::uint64_t Take(std::vector<Target> targets, Done done);

  // The caller does not want it any more: the reading continues, and the next request
  // begins. Nothing where it is over.
  void GiveUp(std::uint64_t number);

  // Their generation is gone: a request that waits gets what there is.
  void Forget();

 private:
  struct Request {
    std::uint64_t number = 0;
    std::vector<Target> targets;
    Done done;
  };
  void Begin();
  void End();

  Loop& loop_;
  StackTaker taker_;
  std::deque<Request> requests_;  // The first is under way.
  std::uint64_t last_number_ = 0;
};

}  // namespace ddprun

// Carries out a server's commands to this node: keeps a stream open to the server, and makes a
// piece of a request whenever one is asked for there.
//
//   no stream --a moment (1 s, then up to 30)--> stream open
//   open --a request's first command--> a job --its piece--> sent --the next command--> ...
//   open --"request over", or the stream ends--> its jobs are dropped
//
// Bounded: kMostJobs, each with one piece at most. Lives on the loop; decides nothing about the
// node.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "agent/commands/request_job.h"
#include "common/loop.h"
#include "rendezvous/transport.h"

namespace ddprun {

class Commands {
 public:
  static constexpr std::size_t kMostJobs = 3 * kMostAsks;  // Followers, others, the server's own.
  static constexpr Duration kBegin{200};  // The first report has been answered, most likely.
  static constexpr Duration kFirstRetry{1'000};
  static constexpr Duration kLastRetry{30'000};

  // `self` returns the node's present membership. The channel must outlive this.
  Commands(Loop& loop, SyncChannel& channel, std::function<Membership()> self, MakeRequestJob make);

  void Start();

  // This node's part in the run has ended, and its jobs will end by themselves. Calls `done` once
  // they have sent all their pieces, or after the limit. Without a job it calls `done` at once; if
  // `followed`, only after a request has got the output to its end.
  void Finish(Duration limit, bool followed, std::function<void()> done);

 private:
  struct Job {
    std::unique_ptr<RequestJob> work;
    bool busy = false;  // A piece is being made, or the last one was.
    bool follows = false;
  };
  void Open();
  void OnCommand(const NodeCommand& command);
  void OnEnded();
  void OnPiece(std::uint64_t request, JobPiece piece);
  void EndIfTold();

  Loop& loop_;
  SyncChannel& channel_;
  const std::function<Membership()> self_;
  const MakeRequestJob make_;
  LoopTimer timer_;
  std::map<std::uint64_t, Job> jobs_;
  std::unique_ptr<CommandStream> stream_;
  Time opened_{};
  Duration retry_ = kFirstRetry;
  LoopTimer finish_;
  std::function<void()> finished_;  // Empty: the run continues.
  bool had_follower_ = false;
  bool needs_follower_ = false;
};

}  // namespace ddprun

// Tells Kubeflow's Trainer how far a TrainJob is, from the node that carries the server and from no
// other: `kubectl get trainjob` then shows it.
//
// A post is made when something has changed, kBetweenPosts after the one before at the earliest
// (the last one, when the run ends, at once), on a thread of its own; while one is under way, for
// however long, none is begun. What fails is said once, and tried again; nothing else follows from
// it.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "common/loop.h"
#include "launcher/command_line/config.h"
#include "launcher/kubernetes/trainjob_status.h"

namespace ddprun {

class TrainJobProgress {
 public:
  static constexpr Duration kBetweenLooks{1'000};
  static constexpr Duration kBetweenPosts{5'000};
  static constexpr Duration kPostLimit{5'000};
  static constexpr Duration kLastPostLimit{2'000};

  // nullopt: the server is not here, or has no such run. On the loop, and after its end.
  using Look = std::function<std::optional<RunStatus>()>;
  TrainJobProgress(Loop& loop, TrainJobServer server, Look look);
  TrainJobProgress(const TrainJobProgress&) = delete;
  TrainJobProgress& operator=(const TrainJobProgress&) = delete;

  void Start();
  // After the loop's end: what has changed since the last post. Waits for kLastPostLimit at most.
  void Finish();

 private:
  struct Hand;

  void LookAgain();
  std::optional<TrainJobStatus> News();
  void Post(const TrainJobStatus& status);
  std::string Failure() const;
  void OnPosted(const TrainJobStatus& status, const std::string& failure);
  std::function<void()> WorkOf(const TrainJobStatus& status, Duration limit) const;

  Loop& loop_;
  const TrainJobServer server_;
  const Look look_;
  LoopTimer timer_;
  std::optional<Time> posted_;              // When the last one began.
  std::optional<TrainJobStatus> standing_;  // What the Trainer has.
  std::uint64_t step_ = 0;                  // Stays while workers are started again.
  bool said_ = false;
  const std::shared_ptr<Hand> hand_;  // Shared with the thread that posts.
};

}  // namespace ddprun

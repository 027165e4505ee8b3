// Carries the streams of a pool to its core, and the core's answers back: each daemon and launch is
// sent its order or view when that has changed. Decides nothing.
//
// Lives on the loop. A stream on which nothing comes for kPoolSilence counts as gone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/loop.h"
#include "rendezvous/pool/pool_core.h"
#include "rendezvous/transport.h"

namespace ddprun {

class PoolDriver {
 public:
  // `first`: the core's.
  PoolDriver(Loop& loop, std::uint64_t first)
      : loop_(loop), core_(first, loop.Now()), wake_(loop) {}

  // Writes the detached runs that the next server shall know; `kept`, on the loop: they are there.
  using Keep = std::function<void(std::vector<PoolRequest>, std::function<void()> kept)>;

  // `earlier`: those of an earlier server. `keep` is called whenever they have changed; the launch
  // of one that is not kept yet is not answered. Before anything arrives.
  void KeepDetached(std::vector<PoolRequest> earlier, Keep keep);

  // `handlers` of a coordinator, with a pool: its streams, and operators' requests about daemons
  // and runs that wait. `forget`: an earlier run of this name if its nodes are the pool's, before
  // the first daemon of the new one gets its order.
  using IsNode = std::function<bool(const NodeId&)>;
  using Forget = std::function<void(const RunId&, const IsNode& of_pool)>;
  RendezvousHandlers With(RendezvousHandlers handlers, Forget forget);

 private:
  enum class Kind { kDaemon, kLaunch };
  using Key = std::pair<Kind, std::string>;  // A daemon's name, or a run id.
  struct Client {
    std::unique_ptr<PoolStream> stream;
    Incarnation incarnation;
    Time heard;
    PoolReport said;                // The newest. The same again needs no decision.
    PoolReply sent = PoolStatus{};  // No such client gets this.
  };

  void OnStream(const PoolReport& first, std::unique_ptr<PoolStream> stream);
  void Answer(std::unique_ptr<PoolStream> stream);
  void OnReport(const Key& key, Incarnation incarnation, const PoolReport& report);
  Result<void> Take(const PoolReport& report);
  void OnGone(const Key& key, Incarnation incarnation);
  Result<std::string> OnStop(ControlRequest request);
  Result<std::string> OnControl(const ControlRequest& request);
  void Settle();
  void KeepNew();
  bool IsKept(const RunId& run_id) const;

  Loop& loop_;
  PoolCore core_;
  std::function<Result<std::string>(const ControlRequest&)> control_;
  Forget forget_;
  static constexpr std::size_t kMostQuestions = 16;
  std::vector<std::unique_ptr<PoolStream>> questions_;
  std::map<Key, Client> clients_;
  Keep keep_;                          // Empty: nothing is kept.
  std::vector<PoolRequest> detached_;  // As `keep_` got them.
  std::vector<PoolRequest> kept_;      // As they are kept.
  LoopTimer wake_;
};

}  // namespace ddprun

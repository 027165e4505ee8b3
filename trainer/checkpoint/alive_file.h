// fence-alive: how a newcomer sees whether the run that holds a checkpoint directory still runs.
//
// Every generation holds a shared flock on it and moves a counter in it every few seconds. A
// newcomer tries the lock exclusively; where locks do not work, or the counter's last writer was
// another machine (locks may not reach it), it watches the counter for a while. Never decides who
// may commit: a wrong verdict costs the old run its right to commit, never data.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "common/files.h"
#include "common/result.h"
#include "trainer/checkpoint/fence_record.h"

namespace ddprun {

struct AliveOptions {
  // flock decides where it works; false: the counter alone does, which takes `watch`.
  bool use_locks = true;
  // How long the counter is watched: shorter than three of its moves takes a run that lives for a
  // dead one.
  std::chrono::milliseconds watch{7000};
  // The time between two looks at the counter; 0 never ends the watch.
  std::chrono::milliseconds poll{500};
  // Sleeps that long; tests move the counter here instead.
  std::function<void(std::chrono::milliseconds)> wait;
  // This machine's name: machines of one name trust a lock that only one of them sees; empty: as
  // the system says.
  std::string host;
};

class AliveFile {
 public:
  AliveFile(const std::filesystem::path& directory, AliveOptions options);

  // Whether any other process lives here. Leaves the shared lock with me if not.
  Result<bool> OthersLive();
  // From now on I am seen to live.
  void Hold(const Writer& writer);
  // Every two seconds or so. May block on a slow disk: never on the training loop.
  void Move();
  void Release();
  void Wait(std::chrono::milliseconds time) const { options_.wait(time); }

 private:
  Result<void> Open();
  Result<std::string> ReadCounter() const;
  Result<bool> CounterMoves() const;

  std::filesystem::path path_;
  AliveOptions options_;
  UniqueFd fd_;
  bool held_ = false;
  Writer writer_;
  std::uint64_t count_ = 0;
};

}  // namespace ddprun

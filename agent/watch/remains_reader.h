// Reads the files that dead workers left, for messages: the error file, and the end of a log that a
// worker wrote by itself.
//
// Never reads on the loop: a worker chose the files' content, and their file system may hang. A
// file that cannot be read within kLimit is left out. Answers come in the order of the requests.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "agent/node_workers.h"
#include "common/loop.h"

namespace ddprun {

class RemainsReader {
 public:
  static constexpr Duration kLimit{1'000};

  explicit RemainsReader(Loop& loop) : loop_(loop) {}

  void Read(LeftFiles files, std::function<void(WorkerRemains)> told);

  // Calls once all answers to earlier requests were given; at once where nothing is under way.
  void Then(std::function<void()> call);

 private:
  void TellNext();

  Loop& loop_;
  struct Item {
    std::function<void()> tell;  // Unset: still read.
  };
  std::deque<std::shared_ptr<Item>> items_;
};

}  // namespace ddprun

// Standard output for a verb that must go on asking while its reader stands still (a pager): a
// thread writes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace ddprun {

class SlowOutput {
 public:
  // Bytes that wait; who has more to say stops until they are fewer.
  static constexpr std::size_t kRoom = std::size_t{1} << 20;

  SlowOutput();
  // Without Finish: output that waits is dropped, and a write whose reader stands still is left
  // behind.
  ~SlowOutput();
  SlowOutput(const SlowOutput&) = delete;
  SlowOutput& operator=(const SlowOutput&) = delete;

  void Put(const std::string& text);
  bool HasRoom() const;
  bool failed() const;  // No reader is left, or the disk is full.
  // Blocks until all is written. False: it could not be.
  bool Finish();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // With the thread.
};

}  // namespace ddprun

// The file in which a server with a state directory keeps the detached runs of its pool, so that
// the next server knows those that no daemon and no launch tells of: they wait, and their launches
// have gone.
//
// A write that fails is said once per outage and tried again; no run waits for it. Lives on the
// loop; only Read waits for the disk.
#pragma once

#include <filesystem>
#include <vector>

#include "common/loop.h"
#include "common/result.h"
#include "rendezvous/messages/pool_messages.h"

namespace ddprun {

class WishFile {
 public:
  WishFile(Loop& loop, std::filesystem::path file);

  // Those of an earlier server; no file: none.
  static Result<std::vector<PoolWish>> Read(const std::filesystem::path& file);

  // The runs to be in the file from now on.
  void Keep(std::vector<PoolWish> wishes);

 private:
  void WriteNext();
  // Empty: it is written.
  void OnWritten(const std::string& why);

  Loop& loop_;
  const std::filesystem::path file_;
  std::vector<PoolWish> wishes_;
  bool due_ = false;
  bool writing_ = false;
  bool failing_ = false;
  LoopTimer again_;
};

}  // namespace ddprun

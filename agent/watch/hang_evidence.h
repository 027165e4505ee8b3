// The evidence that is kept of hung workers, before they are killed or where they continue: their
// stacks, torch's records, their last lines, and the kernel's facts of the machine; in the
// generation's bundle where one is kept, else the stacks alone, in a file of each worker.
//
//   the directory is made, and torch's recorders of NCCL's collectives are asked for their dumps
//   -> the children take stacks, at most 8 at a time, in the order given
//   -> dumps that were promised are waited for, kOfDumps at most
//   -> a Python whose frames no source shows gets SIGABRT, so that faulthandler prints them on its
//      stderr, and until it has ended, kOfDump at most -> last lines and facts are written -> done
//
// So no worker is killed before all others' stacks are there. Decides nothing of the run; lives on
// the loop, and blocks nowhere: disks get a second each, and are left behind then.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/watch/recorder_dump.h"
#include "agent/watch/stack_taker.h"
#include "common/lifetime.h"
#include "common/loop.h"

namespace ddprun {

struct HungWorker {
  pid_t pid = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t rank = 0;
  std::filesystem::path stacks;  // Of it, where no bundle is kept.
  std::filesystem::path errors;  // Where its stderr goes; empty, or not there: to no file.
  std::string notify;            // A StackJob's.
  RecorderNames recorder = {};
};

struct HangEvidenceRequest {
  std::filesystem::path bundle;  // Empty: none is kept.
  std::string node;
  std::filesystem::path logs;  // NodePart's.
  std::vector<HungWorker> workers;
  // On the loop: the last lines that the rank printed.
  std::function<std::string(std::uint32_t local_rank)> last_lines;
  // Where they are to continue: takes their stacks in its place, and leaves them unharmed; the end
  // comes once, later, unless it is forgotten.
  std::function<void(std::vector<StackJob> jobs, std::function<void()> done)> take_live = {};
  std::string failed = {};  // When carried out: the parts that could not be kept.
  bool may_abort = true;    // False: nothing would be printed.
  // Ends it, if it still is the process that it was.
  std::function<void(const HungWorker&)> abort;
};

// Where that worker's stacks are.
std::filesystem::path StacksOf(const HangEvidenceRequest& request, const HungWorker& worker);

class HangEvidence {
 public:
  static constexpr Duration kOfDisk{1'000};
  static constexpr Duration kOfDump{1'000};
  static constexpr Duration kOfDumps{1'500};  // torch looks into its pipe once a second.

  // `program`: StackTaker's.
  HangEvidence(Loop& loop, std::string program);
  ~HangEvidence();
  HangEvidence(const HangEvidence&) = delete;
  HangEvidence& operator=(const HangEvidence&) = delete;

  // `done` comes once, on the loop, with the request as it was carried out: without a bundle where
  // none could be had. Each worker's stacks get `limit` at most.
  void Take(HangEvidenceRequest request, Duration limit,
            std::function<void(const HangEvidenceRequest&)> done);
  // This worker is no more, and what it printed has been read;
  void Ended(std::uint32_t local_rank);
  // nor is any. Facts that are known by then are written still, beside whatever follows.
  void AllGone();
  // `done` never comes.
  void Forget();
  // On the loop: now, or once the last part is written (kOfDisk at most) or forgotten.
  void WhenWritten(std::function<void()> then);

 private:
  struct Dumps;

  void OnDisk(Duration limit, std::function<void()> work, std::function<void(bool)> then);
  void TakeStacks();
  void WaitForDumps(const std::vector<int>& codes);
  void OnTaken(const std::vector<int>& codes);
  void WriteRest();
  void Finish();
  void Written();
  static void KeepDumps(Dumps& dumps, const std::filesystem::path& bundle);

  Loop& loop_;
  StackTaker taker_;
  LoopTimer dumped_;
  std::set<std::uint32_t> aborted_;  // Local ranks that have not ended yet.
  bool writing_ = false;             // The last part.
  HangEvidenceRequest request_;
  std::shared_ptr<Dumps> dumps_;  // With what is under way.
  Duration limit_{0};
  std::function<void(const HangEvidenceRequest&)> done_;
  std::function<void()> then_;
  Lifetime round_;  // Renewed by Forget.
};

}  // namespace ddprun

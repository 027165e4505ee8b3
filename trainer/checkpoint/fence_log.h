// Decides which world may move the head of a checkpoint directory: a log of small numbered files.
//
//   fence-<n> = claim {who, lineage} | commit {who, new lineage} | close {who, lineage}
//
// Writing a record is: temporary file, fsync, link() to the next number, fsync of the directory. A
// number that is taken means that another process moved: read on and decide again. So check and
// write are one step, and no lock is needed for safety. Refusals are ErrorKind::kRefused, and
// nothing else here is: the worker ends with kExitDoNotRestart.
//
//   claim   my run's last record (open or closed) must be smaller in (term, generation); the same
//           world claiming again is fine. Another run's open record: only if that run is dead.
//   commit  the newest record must be mine (run and world id) and open
//   close   likewise; closing twice is fine
//
// A writer without order (plain torchrun or a lone process: world id 0) is a run of its own for
// the claim: its predecessor must be closed or dead, whatever its run id.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/fence_record.h"
#include "trainer/checkpoint/file_system.h"

namespace ddprun {

// The questions of a claim to the world outside the log.
struct Liveness {
  // Whether another run's open record belongs to a process that still runs. May take seconds.
  std::function<Result<bool>(const FenceRecord& newest)> lives;
  // Called right before the record is written: from here on I must be seen to live.
  std::function<void()> hold;
};

class FenceLog {
 public:
  FenceLog(FileSystem& files, std::filesystem::path directory);

  // The newest record that can be read; none in a new directory. A damaged newer one is skipped
  // and named in `warnings`.
  Result<std::optional<FenceRecord>> Newest(std::vector<std::string>& warnings) const;

  // The record under which I may load and commit from now on.
  Result<FenceRecord> Claim(const Writer& writer, const Liveness& liveness,
                            std::vector<std::string>& warnings);
  Result<FenceRecord> Commit(const Writer& writer, const std::vector<CheckpointRef>& lineage,
                             const std::optional<CheckpointRef>& best = std::nullopt);
  Result<FenceRecord> Close(const Writer& writer);

  // kRefused unless the newest record is mine and open.
  Result<FenceRecord> CheckMine(const Writer& writer) const;

  // The records right before `number`, nearest first: as far as each can be read. A world whose
  // newest record is among them has no record elsewhere. At most as many as Prune keeps.
  std::vector<FenceRecord> Before(std::uint64_t number) const;

  // Removes records far behind the newest, but never a run's last one. Failures do not matter.
  void Prune();

 private:
  struct Tail {
    std::uint64_t last_number = 0;  // The highest number taken, readable or not. 0: none.
    std::optional<FenceRecord> newest;
    std::vector<FenceRecord> not_listed;  // Newer than the listing, opened by name; ascending.
  };

  Result<std::vector<std::uint64_t>> Numbers() const;
  Result<FenceRecord> ReadRecord(std::uint64_t number) const;
  Result<Tail> ReadTail(std::vector<std::string>& warnings) const;
  // Of the same run.
  Result<std::optional<FenceRecord>> LastOf(const Writer& writer, const Tail& tail) const;
  Result<void> CheckClaim(const Writer& writer, const Tail& tail, const Liveness& liveness) const;
  // True: written as that number. False: another process has taken the number.
  Result<bool> Append(const FenceRecord& record) const;
  Result<FenceRecord> AppendMine(const Writer& writer, RecordKind kind, const FenceRecord* head);
  std::filesystem::path PathOf(std::uint64_t number) const;

  FileSystem& files_;
  std::filesystem::path directory_;
};

}  // namespace ddprun

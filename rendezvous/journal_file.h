// The file in which a rendezvous server keeps what a new one must know: an append-only sequence of
// records, each with its length and a checksum.
//
// Decides what a file found on disk still says: a last record that was never written whole is cut
// off (the server died writing it); damage before whole records is skipped and said, since later
// records stand for themselves and reports tell the rest; a file that is no journal is refused and
// left as it is. Never holds two servers: the file is locked while open. Mode 0600. Grows to eight
// times what is current, at least 1 MiB, then it is written anew beside and renamed.
//
// Blocks: every call but the constructor's may wait for a disk. One thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/files.h"
#include "common/result.h"
#include "rendezvous/journal.h"

namespace ddprun {

std::string Encode(const JournalEntry& entry);
Result<JournalEntry> DecodeEntry(const std::string& bytes);

struct JournalContents {
  Term term;                         // The highest reign's.
  std::vector<RunRecord> runs;       // The newest record of each.
  std::vector<EndedRun> ended;       // Of others.
  std::vector<std::string> remarks;  // What was damaged and left out, for people.
};

class JournalFile final : public JournalDisk {
 public:
  // Makes the file if it is not there. kInvalid: the path cannot be used; kRefused: another server
  // has it.
  static Result<JournalFile> Open(const std::filesystem::path& path, JournalContents& found);

  // On disk when it returns. After a failure the file is as before, or is written anew next time.
  Result<void> Append(const JournalEntry& entry) override;

 private:
  JournalFile(std::filesystem::path path, UniqueFd fd);
  Result<void> ReadAll(JournalContents& found);
  void Remember(const JournalEntry& entry, std::string bytes);
  Result<void> WriteAnew();
  std::uint64_t CurrentBytes() const;

  std::filesystem::path path_;
  UniqueFd fd_;
  std::uint64_t size_ = 0;
  bool damaged_ = false;               // Must be written anew.
  std::string reign_;                  // The newest, encoded.
  std::map<RunId, std::string> runs_;  // The newest of each, encoded.
};

}  // namespace ddprun

#include "trainer/checkpoint/fence_log.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/check.h"
#include "common/text.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "fence-";
constexpr std::size_t kMaxRecordBytes = 64 * 1024;
constexpr std::uint64_t kKeepRecords = 64;
// A record that was decided upon before this many newer ones may have taken a number that pruning
// had freed: it is not the newest, whatever link() said.
constexpr std::uint64_t kTooFarBehind = kKeepRecords / 2;
constexpr int kMaxRaces = 1000;
constexpr std::uint64_t kMaxNumber = std::uint64_t{1} << 60;  // A larger one is a forgery.

Error Refused(const std::string& what) {
  return {ErrorKind::kRefused, what};
}

bool SameWorld(const Writer& a, const Writer& b) {
  return a.run_id == b.run_id && a.world_id == b.world_id;
}

bool SameOrderedRun(const Writer& a, const Writer& b) {
  return a.ordered && b.ordered && a.run_id == b.run_id;
}

auto Order(const Writer& writer) {
  return std::tuple(writer.term, writer.generation);
}

}  // namespace

FenceLog::FenceLog(FileSystem& files, fs::path directory)
    : files_(files), directory_(std::move(directory)) {}

fs::path FenceLog::PathOf(std::uint64_t number) const {
  return directory_ / (std::string(kPrefix) + std::to_string(number));
}

Result<std::vector<std::uint64_t>> FenceLog::Numbers() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(directory_));
  std::vector<std::uint64_t> numbers;
  for (const std::string& name : names) {
    if (const auto number = NumberOfRecord(name, kPrefix, kMaxNumber)) {
      numbers.push_back(*number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

Result<FenceRecord> FenceLog::ReadRecord(std::uint64_t number) const {
  const fs::path path = PathOf(number);
  ASSIGN_OR_RETURN(const std::string text, files_.Read(path, kMaxRecordBytes));
  return FenceRecordFromText(text, number, path.native());
}

Result<FenceLog::Tail> FenceLog::ReadTail(std::vector<std::string>& warnings) const {
  ASSIGN_OR_RETURN(std::vector<std::uint64_t> numbers, Numbers());
  Tail tail;
  tail.last_number = numbers.empty() ? 0 : numbers.back();
  // A network file system's listing may be old; opening by name asks the server.
  while (true) {
    Result<FenceRecord> next = ReadRecord(tail.last_number + 1);
    if (!next && next.error().kind == ErrorKind::kNotFound) {
      break;
    }
    if (!next && next.error().kind != ErrorKind::kInvalid) {
      return next.error();
    }
    numbers.push_back(++tail.last_number);
    if (next) {  // Kept, not read again: the next lookup may be an older one.
      tail.not_listed.push_back(*std::move(next));
      numbers.clear();
    }
  }
  if (!tail.not_listed.empty()) {
    tail.newest = tail.not_listed.back();
  }
  // Those after it, or all.
  for (bool found = false; !numbers.empty() && !found; numbers.pop_back()) {
    Result<FenceRecord> record = ReadRecord(numbers.back());
    found = record.has_value();
    if (record) {
      tail.newest = *std::move(record);
    } else if (record.error().kind == ErrorKind::kInvalid) {
      warnings.push_back(record.error().message + "; using the record before it");
    } else if (record.error().kind != ErrorKind::kNotFound) {
      return record.error();
    }
  }
  return tail;
}

Result<std::optional<FenceRecord>> FenceLog::Newest(std::vector<std::string>& warnings) const {
  ASSIGN_OR_RETURN(Tail tail, ReadTail(warnings));
  return std::move(tail.newest);
}

Result<std::optional<FenceRecord>> FenceLog::LastOf(const Writer& writer, const Tail& tail) const {
  for (auto record = tail.not_listed.rbegin(); record != tail.not_listed.rend(); ++record) {
    if (SameOrderedRun(record->writer, writer)) {
      return std::optional<FenceRecord>(*record);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<std::uint64_t> numbers, Numbers());
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    Result<FenceRecord> record = ReadRecord(*number);
    if (record && SameOrderedRun(record->writer, writer)) {
      return std::optional<FenceRecord>(*std::move(record));
    }
    if (!record && record.error().kind == ErrorKind::kSystem) {
      return record.error();
    }
  }
  return std::optional<FenceRecord>();
}

Result<bool> FenceLog::Append(const FenceRecord& record) const {
  const fs::path temporary = directory_ / (".fence-" + Hex(record.writer.world_id.value) + "-" +
                                           std::to_string(record.number));
  const std::string text = ToText(record);
  RETURN_IF_ERROR(files_.Write(temporary, {text}));
  RETURN_IF_ERROR(files_.Sync(temporary));
  const Result<bool> linked = files_.Link(temporary, PathOf(record.number));
  (void)files_.Remove(temporary);  // Litter at worst; the next claim removes it.
  if (!linked && linked.error().kind == ErrorKind::kNotFound) {
    return false;  // A newer claim removed the temporary file.
  }
  if (!linked) {
    return linked.error();
  }
  if (!*linked) {
    // Perhaps it is mine: a network file system may repeat a link whose answer was lost.
    const Result<FenceRecord> other = ReadRecord(record.number);
    if (!other || !(*other == record)) {
      return false;
    }
  }
  RETURN_IF_ERROR(files_.Sync(directory_));
  ASSIGN_OR_RETURN(const std::vector<std::uint64_t> numbers, Numbers());
  return numbers.empty() || numbers.back() < record.number + kTooFarBehind;
}

Result<void> FenceLog::CheckClaim(const Writer& writer, const Tail& tail,
                                  const Liveness& liveness) const {
  if (writer.ordered) {
    ASSIGN_OR_RETURN(const std::optional<FenceRecord> last, LastOf(writer, tail));
    if (last && !(Order(last->writer) < Order(writer))) {
      return Refused("checkpoint directory '" + directory_.native() + "' belongs to " +
                     Describe(last->writer) +
                     ", which is not older than this one: " + Describe(writer));
    }
  }
  const bool open = tail.newest && tail.newest->kind != RecordKind::kClose;
  if (!open || SameOrderedRun(tail.newest->writer, writer)) {
    return {};
  }
  ASSIGN_OR_RETURN(const bool lives, liveness.lives(*tail.newest));
  if (lives) {
    return Refused("checkpoint directory '" + directory_.native() + "' is in use by " +
                   Describe(tail.newest->writer) +
                   ", which still runs: stop it, or give this run another directory "
                   "[checkpoint-in-use]");
  }
  return {};
}

Result<FenceRecord> FenceLog::Claim(const Writer& writer, const Liveness& liveness,
                                    std::vector<std::string>& warnings) {
  CHECK(writer.world_id.value != 0);
  for (int race = 0; race < kMaxRaces; ++race) {
    std::vector<std::string> seen;
    ASSIGN_OR_RETURN(const Tail tail, ReadTail(seen));
    if (!tail.newest && !seen.empty()) {  // To start afresh here would hide the checkpoints.
      return Error{ErrorKind::kInvalid, "no fence record can be read in '" + directory_.native() +
                                            "' (" + seen.front() + "): set another directory"};
    }
    if (!tail.newest && tail.last_number > 0) {
      continue;  // Pruned while it was read: there are newer ones.
    }
    if (tail.newest && tail.newest->writer == writer && tail.newest->kind != RecordKind::kClose) {
      liveness.hold();
      return CheckMine(writer);  // Newer records that are damaged may be of another world.
    }
    RETURN_IF_ERROR(CheckClaim(writer, tail, liveness));
    liveness.hold();
    FenceRecord claim{tail.last_number + 1, RecordKind::kClaim, writer, {}, {}};
    if (tail.newest) {
      claim.lineage = tail.newest->lineage;
      claim.best = tail.newest->best;
    }
    ASSIGN_OR_RETURN(const bool written, Append(claim));
    if (written) {
      warnings.insert(warnings.end(), seen.begin(), seen.end());
      return claim;
    }
  }
  return Error{ErrorKind::kUnavailable, "cannot claim checkpoint directory '" +
                                            directory_.native() + "': other runs keep claiming it"};
}

Result<FenceRecord> FenceLog::CheckMine(const Writer& writer) const {
  std::vector<std::string> warnings;
  const Result<Tail> tail = ReadTail(warnings);
  if (!tail && tail.error().kind != ErrorKind::kNotFound) {
    return tail.error();
  }
  if (!tail || tail->last_number == 0) {
    return Error{ErrorKind::kUnavailable, "the fence records in checkpoint directory '" +
                                              directory_.native() +
                                              "' are gone: was it emptied or unmounted? "
                                              "[fence-records-gone]"};
  }
  if (!tail->newest || tail->newest->number != tail->last_number) {
    return Invalid("the newest fence record cannot be read" +
                       (warnings.empty() ? std::string() : " (" + warnings.front() + ")"),
                   directory_.native());
  }
  if (!SameWorld(tail->newest->writer, writer)) {
    return Refused("checkpoint directory '" + directory_.native() + "' was taken over by " +
                   Describe(tail->newest->writer) + ": this world, " + Describe(writer) +
                   ", may no longer write to it [checkpoint-taken-over]");
  }
  return *tail->newest;
}

Result<FenceRecord> FenceLog::AppendMine(const Writer& writer, RecordKind kind,
                                         const FenceRecord* head) {
  for (int race = 0; race < kMaxRaces; ++race) {
    ASSIGN_OR_RETURN(const FenceRecord newest, CheckMine(writer));
    if (newest.kind == RecordKind::kClose) {
      if (kind == RecordKind::kClose) {
        return newest;
      }
      return Refused("checkpoint directory '" + directory_.native() + "' was closed by " +
                     Describe(writer));
    }
    const FenceRecord& from = head == nullptr ? newest : *head;
    FenceRecord record{newest.number + 1, kind, writer, from.lineage, from.best};
    ASSIGN_OR_RETURN(const bool written, Append(record));
    if (written) {
      return record;
    }
  }
  return Error{ErrorKind::kUnavailable,
               "cannot write a fence record in '" + directory_.native() + "'"};
}

Result<FenceRecord> FenceLog::Commit(const Writer& writer,
                                     const std::vector<CheckpointRef>& lineage,
                                     const std::optional<CheckpointRef>& best) {
  CHECK(!lineage.empty() && lineage.size() <= kMaxLineage);
  const FenceRecord head{.lineage = lineage, .best = best};
  return AppendMine(writer, RecordKind::kCommit, &head);
}

Result<FenceRecord> FenceLog::Close(const Writer& writer) {
  return AppendMine(writer, RecordKind::kClose, nullptr);
}

// By number, not by listing, which may be old.
std::vector<FenceRecord> FenceLog::Before(std::uint64_t number) const {
  std::vector<FenceRecord> records;
  while (number-- > 1 && records.size() < kKeepRecords) {
    Result<FenceRecord> record = ReadRecord(number);
    if (!record) {
      break;
    }
    records.push_back(*std::move(record));
  }
  return records;
}

void FenceLog::Prune() {
  const Result<std::vector<std::uint64_t>> numbers = Numbers();
  if (!numbers || numbers->size() <= kKeepRecords) {
    return;
  }
  const std::uint64_t keep_from = numbers->back() - std::min(numbers->back(), kKeepRecords);
  std::set<RunId> seen;
  for (auto number = numbers->rbegin(); number != numbers->rend(); ++number) {
    const Result<FenceRecord> record = ReadRecord(*number);
    // The last record of a run is what keeps its older generations out.
    const bool last_of_run =
        record && record->writer.ordered && seen.insert(record->writer.run_id).second;
    if (*number <= keep_from && record && !last_of_run) {
      (void)files_.Remove(PathOf(*number));
    }
  }
}

}  // namespace ddprun

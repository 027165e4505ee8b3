#include "trainer/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "trainer/checkpoint/digest.h"
#include "trainer/checkpoint/orphans.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kTrash = ".trash-";
constexpr std::string_view kFenceTemporary = ".fence-";
// Ancestors that a crash kept from being removed are remembered this much longer.
constexpr std::size_t kRememberPruned = 8;
constexpr std::uint64_t kSpaceMargin = 64 * 1024;
constexpr std::chrono::milliseconds kPatience{10'000};
constexpr std::chrono::milliseconds kPatiencePoll{200};

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool Contains(const std::vector<CheckpointRef>& lineage, const std::string& name) {
  return std::any_of(lineage.begin(), lineage.end(),
                     [&](const CheckpointRef& ref) { return ref.directory == name; });
}

std::string Megabytes(std::uint64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%llu bytes (%.1f MB)", static_cast<unsigned long long>(bytes),
                static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace

CheckpointStore::CheckpointStore(FileSystem& files, CheckpointConfig config)
    : files_(files),
      config_(std::move(config)),
      fence_(files, config_.directory),
      alive_(config_.directory, config_.alive) {
  CHECK(config_.keep_last >= 1 && config_.keep_last <= kMaxLineage / 2);
}

Result<std::vector<std::string>> CheckpointStore::Claim(const Writer& writer) {
  RETURN_IF_ERROR(files_.MakeDirectory(config_.directory));
  // Seen before the claim, so that nothing of a newer world can be among it.
  ASSIGN_OR_RETURN(const std::vector<std::string> seen, files_.List(config_.directory));
  if (seen.empty()) {
    // So that a power loss does not take the directory's own name. Not all parents may be opened.
    (void)files_.Sync(fs::absolute(config_.directory).lexically_normal().parent_path());
  }
  const Liveness liveness{
      [&](const FenceRecord& newest) { return PredecessorLives(newest, writer); },
      [&] { alive_.Hold(writer); }};
  std::vector<std::string> warnings;
  Result<FenceRecord> claim = fence_.Claim(writer, liveness, warnings);
  if (!claim) {
    alive_.Release();
    return std::move(claim).error();
  }
  writer_ = writer;
  lineage_ = claim->lineage;
  best_ = claim->best;
  last_record_ = claim->number;
  claim_ = *std::move(claim);
  RemoveLeftovers(seen, warnings);
  return warnings;
}

// Plain torchrun restarts a worker as soon as it has killed the old one: that one is given time to
// disappear. Any other process that lives is in the way for good.
Result<bool> CheckpointStore::PredecessorLives(const FenceRecord& newest, const Writer& writer) {
  const bool restarted = !writer.ordered && newest.writer.run_id == writer.run_id;
  for (std::chrono::milliseconds waited{0};; waited += kPatiencePoll) {
    ASSIGN_OR_RETURN(const bool lives, alive_.OthersLive());
    if (!lives || !restarted || waited >= kPatience) {
      return lives;
    }
    alive_.Wait(kPatiencePoll);
  }
}

void CheckpointStore::RemoveLeftovers(const std::vector<std::string>& names,
                                      std::vector<std::string>& warnings) {
  const std::string mine = Hex(writer_->world_id.value);
  for (const std::string& name : names) {
    const bool leftover = name.starts_with(kTemporary) || name.starts_with(kTrash) ||
                          name.starts_with(kFenceTemporary);
    if (!leftover || name.find(mine) != name.npos) {
      continue;
    }
    if (const Result<void> removed = files_.Remove(config_.directory / name); !removed) {
      warnings.push_back(removed.error().message);
    }
  }
}

Result<LoadOutcome> CheckpointStore::Load() {
  CHECK(writer_);
  LoadOutcome outcome;
  std::string broken;
  for (std::size_t i = 0; i < lineage_.size(); ++i) {
    ReadOutcome read = Read(lineage_[i]);
    if (read.checkpoint) {
      if (i > 0) {
        outcome.warnings.back() += "; continuing from '" + lineage_[i].directory + "'";
      }
      lineage_.erase(lineage_.begin(), lineage_.begin() + static_cast<std::ptrdiff_t>(i));
      outcome.checkpoint = std::move(read.checkpoint);
      return outcome;
    }
    if (read.other_model) {
      return read.error;
    }
    outcome.warnings.push_back("checkpoint '" + lineage_[i].directory +
                               "' is broken: " + read.error.message);
    broken += "\n  " + lineage_[i].directory + ": " + read.error.message;
  }
  if (!lineage_.empty()) {
    return Error{
        ErrorKind::kInvalid,
        "none of the checkpoints in '" + config_.directory.native() +
            "' can be read. Restore one of them, or set another directory to start afresh:" +
            broken + " [checkpoints-damaged]"};
  }
  RETURN_IF_ERROR(NameUncommitted(outcome.warnings));
  return outcome;
}

// A start from nothing beside checkpoints that no record names must not go unnoticed.
Result<void> CheckpointStore::NameUncommitted(std::vector<std::string>& warnings) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(config_.directory));
  for (const std::string& name : names) {
    if (IsCheckpointName(name)) {
      warnings.push_back("'" + name +
                         "' was never committed and is not used. To begin with its parameters, "
                         "set --init-from to its path");
    }
  }
  return {};
}

ReadOutcome CheckpointStore::Read(const CheckpointRef& ref) const {
  const fs::path path = config_.directory / ref.directory;
  ReadOutcome read = ReadCheckpoint(files_, path, ref.digest, config_);
  if (!read.checkpoint && read.error.kind == ErrorKind::kSystem) {
    // Perhaps it passes: falling back costs steps.
    read = ReadCheckpoint(files_, path, ref.digest, config_);
  }
  return read;
}

Result<LoadedCheckpoint> CheckpointStore::LoadExactly(const CheckpointRef& ref) const {
  ReadOutcome read = Read(ref);
  if (!read.checkpoint) {
    return read.error;
  }
  return *std::move(read.checkpoint);
}

Result<std::string> CheckpointStore::FreeName(std::uint64_t step) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(config_.directory));
  const std::string first = CheckpointName({step, writer_->world_id});
  std::string name = first;
  for (int again = 2; Contains(names, name); ++again) {
    name = first + "." + std::to_string(again);
  }
  return name;
}

Error CheckpointStore::WithSpace(Error error, std::uint64_t wanted) const {
  const Result<std::uint64_t> available = files_.FreeBytes(config_.directory);
  error.message += " (the checkpoint needs " + Megabytes(wanted) + " and a margin of " +
                   std::to_string(kSpaceMargin) + " bytes, " +
                   (available ? Megabytes(*available) : "an unknown number") + " are free; ";
  // After StartAfresh the directory may hold others.
  error.message +=
      lineage_.empty() ? "this training has no older checkpoint)" : "the older checkpoints stay)";
  error.message += " [checkpoint-space]";
  return error;
}

Result<SaveReport> CheckpointStore::Save(const Snapshot& snapshot) {
  CHECK(writer_);
  ASSIGN_OR_RETURN(const FenceRecord newest, fence_.CheckMine(*writer_));
  if (newest.number != last_record_) {
    lineage_ = newest.lineage;  // My last commit was made after all; its answer got lost.
    SetBest(newest.best);
    last_record_ = newest.number;
  }
  TrainState state = snapshot.state;
  state.run_id = writer_->run_id;
  state.term = writer_->term;
  state.generation = writer_->generation;
  state.world_id = writer_->world_id;
  state.parent = lineage_.empty() ? "" : lineage_.front().directory;
  CheckpointFiles contents(snapshot, std::move(state));

  const std::uint64_t wanted = contents.bytes();
  const Result<std::uint64_t> available = files_.FreeBytes(config_.directory);
  if (available && *available < wanted + kSpaceMargin) {
    return WithSpace(
        {ErrorKind::kSystem, "cannot save step " + std::to_string(snapshot.state.step) + " in '" +
                                 config_.directory.native() + "': too little space"},
        wanted);
  }
  ASSIGN_OR_RETURN(const std::string name, FreeName(snapshot.state.step));
  const fs::path temporary = config_.directory / (std::string(kTemporary) + name);
  Result<std::uint64_t> written = Publish(contents, temporary, config_.directory / name);
  if (!written) {
    (void)files_.Remove(temporary);
    return WithSpace(std::move(written).error(), wanted);
  }

  SaveReport report{{name, *written}, {}};
  std::vector<CheckpointRef> lineage{report.ref};
  lineage.insert(lineage.end(), lineage_.begin(), lineage_.end());
  lineage.resize(std::min(lineage.size(), config_.keep_last + kRememberPruned));
  const std::optional<CheckpointRef> best = snapshot.state.best ? report.ref : best_;
  ASSIGN_OR_RETURN(const FenceRecord record,
                   fence_.Commit(*writer_, lineage, best));  // Commit point.
  lineage_ = std::move(lineage);
  last_record_ = record.number;
  if (snapshot.state.best) {
    SetBest(best);
    TellBest(report.warnings);
  }
  Prune(report.warnings);
  return report;
}

void CheckpointStore::SetBest(const std::optional<CheckpointRef>& best) {
  if (best_ && best_ != best) {
    surpassed_ = best_->directory;
  }
  best_ = best;
}

// {"digest":"<xxh64 of its state.json>","directory":"step-00000900-9f0c55aa01234567"}, replaced by
// a rename: at any instant the old record or the new one.
Result<void> CheckpointStore::WriteBest() const {
  RETURN_IF_ERROR(CheckFence());  // A newer world's file is not to be overwritten.
  const fs::path temporary = config_.directory / (".tmp-best-" + Hex(writer_->world_id.value));
  const std::string text =
      R"({"digest":")" + Hex(best_->digest) + R"(","directory":")" + best_->directory + "\"}\n";
  RETURN_IF_ERROR(files_.Write(temporary, {text}));
  RETURN_IF_ERROR(files_.Sync(temporary));
  RETURN_IF_ERROR(files_.Rename(temporary, config_.directory / "best.json"));
  return files_.Sync(config_.directory);
}

void CheckpointStore::TellBest(std::vector<std::string>& warnings) {
  if (const Result<void> written = WriteBest(); !written) {
    warnings.push_back(
        "'" + best_->directory +
        "' is the best checkpoint, but best.json cannot be updated: " + written.error().message);
  }
}

Result<std::optional<LoadedCheckpoint>> CheckpointStore::LoadBest() const {
  if (!best_) {
    return std::optional<LoadedCheckpoint>();
  }
  ASSIGN_OR_RETURN(LoadedCheckpoint best, LoadExactly(*best_));
  return std::optional(std::move(best));
}

bool CheckpointStore::IsKept(const std::string& name) const {
  const auto end =
      lineage_.begin() + static_cast<std::ptrdiff_t>(std::min(config_.keep_last, lineage_.size()));
  return (best_ && best_->directory == name) ||
         std::any_of(lineage_.begin(), end,
                     [&](const CheckpointRef& ref) { return ref.directory == name; });
}

// A crash at any line leaves the old head; the new directory counts only once the record names it.
Result<std::uint64_t> CheckpointStore::Publish(CheckpointFiles& contents, const fs::path& temporary,
                                               const fs::path& final_path) {
  RETURN_IF_ERROR(files_.Remove(temporary));
  RETURN_IF_ERROR(files_.MakeDirectory(temporary));
  ASSIGN_OR_RETURN(const std::uint64_t digest, contents.Write(files_, temporary));
  RETURN_IF_ERROR(files_.Sync(temporary));
  RETURN_IF_ERROR(files_.Rename(temporary, final_path));
  RETURN_IF_ERROR(files_.Sync(config_.directory));
  return digest;
}

std::set<std::string> CheckpointStore::Doomed(const std::vector<std::string>& names) {
  std::set<std::string> doomed;
  for (std::size_t i = config_.keep_last; i < lineage_.size(); ++i) {
    doomed.insert(lineage_[i].directory);
  }
  // Files that this world wrote but could not commit: no record can name them any more.
  const std::string mine = "-" + Hex(writer_->world_id.value);
  for (const std::string& name : names) {
    if (IsCheckpointName(name) && name.find(mine) != name.npos && !Contains(lineage_, name)) {
      doomed.insert(name);
    }
  }
  doomed.insert(surpassed_);
  surpassed_.clear();
  if (claim_) {
    doomed.merge(Orphans(names, *claim_, fence_.Before(claim_->number)));
    claim_.reset();
  }
  std::erase_if(doomed,
                [&](const std::string& name) { return IsKept(name) || !Contains(names, name); });
  return doomed;
}

void CheckpointStore::Prune(std::vector<std::string>& warnings) {
  const Result<std::vector<std::string>> names = files_.List(config_.directory);
  if (!names || !fence_.CheckMine(*writer_)) {
    return;  // A newer world may be loading one of them.
  }
  for (const std::string& name : Doomed(*names)) {
    const fs::path trash = config_.directory / (std::string(kTrash) + name);
    Result<void> removed = files_.Rename(config_.directory / name, trash);
    if (removed) {
      removed = files_.Remove(trash);
    }
    if (!removed) {
      warnings.push_back("cannot remove an old checkpoint: " + removed.error().message);
    }
  }
  fence_.Prune();
}

Result<void> CheckpointStore::Close() {
  CHECK(writer_);
  RETURN_IF_ERROR(fence_.Close(*writer_));
  return {};
}

Result<void> CheckpointStore::CheckFence() const {
  CHECK(writer_);
  RETURN_IF_ERROR(fence_.CheckMine(*writer_));
  return {};
}

void CheckpointStore::ShowLife() {
  alive_.Move();
}

void CheckpointStore::StopShowingLife() {
  alive_.Release();
}

}  // namespace ddprun

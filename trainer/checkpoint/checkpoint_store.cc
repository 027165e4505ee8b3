#include "trainer/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "common/format.h"
#include "trainer/checkpoint/digest.h"
#include "trainer/checkpoint/orphans.h"
#include "trainer/checkpoint/safetensors.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kRankStates = "rank-states.safetensors";  // Of generators: none any more.
constexpr const char* kState = "state.json";
constexpr std::size_t kMaxState = 64 << 20;

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

bool Contains(std::span<const CheckpointRef> lineage, const std::string& name) {
  return std::ranges::count(lineage, name, &CheckpointRef::directory) > 0;
}

std::string Megabytes(std::uint64_t bytes) {
  return std::to_string(bytes) + Format(" bytes (%.1f MB)", static_cast<double>(bytes) / 1e6);
}

Result<std::vector<Tensor>> ReadTensors(FileSystem& files, const fs::path& directory,
                                        const StateFile& state, const std::string& name) {
  const auto listed = std::ranges::find(state.files, name, &FileDigest::name);
  const fs::path path = directory / name;
  if (listed == state.files.end() || listed->bytes > std::numeric_limits<std::size_t>::max() / 2) {
    return Invalid("state.json does not list", path.native());
  }
  ASSIGN_OR_RETURN(const DigestedBytes read, files.ReadDigested(path, listed->bytes));
  if (read.bytes.size() != listed->bytes) {
    return Invalid("the file has " + std::to_string(read.bytes.size()) + " bytes instead of " +
                       std::to_string(listed->bytes),
                   path.native());
  }
  if (read.xxh64 != listed->xxh64) {
    return Invalid("the file was changed (its xxh64 is " + Hex(read.xxh64) + " instead of " +
                       Hex(listed->xxh64) + ")",
                   path.native());
  }
  ASSIGN_OR_RETURN(SafetensorsFile file, ParseSafetensors(read.bytes, path.native()));
  return std::move(file.tensors);
}

Result<StateFile> ReadState(FileSystem& files, const fs::path& directory, std::uint64_t digest) {
  const fs::path path = directory / kState;
  ASSIGN_OR_RETURN(const std::string text, files.Read(path, kMaxState));
  if (Digest(text) != digest) {
    return Invalid("the file was changed (its xxh64 is " + Hex(Digest(text)) + " instead of " +
                       Hex(digest) + ")",
                   path.native());
  }
  return StateFileFromJson(text, path.native());
}

Result<Snapshot> ReadContents(FileSystem& files, const fs::path& directory, StateFile state) {
  Snapshot snapshot;
  ASSIGN_OR_RETURN(snapshot.model, ReadTensors(files, directory, state, kModel));
  ASSIGN_OR_RETURN(snapshot.optimizer, ReadTensors(files, directory, state, kOptimizer));
  RETURN_IF_ERROR(ReadTensors(files, directory, state, kRankStates));  // Whole, and not used.
  snapshot.state = std::move(state.state);
  return snapshot;
}

// Of the tensors of `own`, as a model's description lists them, the first that `other` lacks or has
// in another shape, and how many more there are. Empty: none.
std::string OnlyIn(const std::string& own, const std::string& other) {
  constexpr std::size_t kShown = 3;
  std::istringstream other_words(other);
  const std::set<std::string> known(std::istream_iterator<std::string>(other_words), {});
  std::string shown;
  std::size_t count = 0;
  std::istringstream words(own);
  for (std::string word; words >> word;) {
    if (!known.contains(word) && count++ < kShown) {
      shown += (shown.empty() ? "" : " ") + word;
    }
  }
  if (count > kShown) {
    shown += " and " + std::to_string(count - kShown) + " more";
  }
  return shown;
}

std::string ModelText(const std::string& name, const std::string& differing) {
  return "'" + name + "'" + (differing.empty() ? "" : " (" + differing + ")");
}

// Names both models, how they differ, and what to do. None: they match, perhaps in another order:
// tensors are found by their names.
std::optional<Error> ModelMismatch(const TrainState& state, const CheckpointConfig& config,
                                   const fs::path& checkpoint) {
  const std::string there = OnlyIn(state.model_description, config.model_description);
  const std::string here = OnlyIn(config.model_description, state.model_description);
  if (state.model == config.model && there.empty() && here.empty()) {
    return std::nullopt;
  }
  return Error{ErrorKind::kInvalid,
               "checkpoint '" + checkpoint.native() + "' is of model " +
                   ModelText(state.model, there) + ", this program trains " +
                   ModelText(config.model, here) +
                   ": choose the same model, or another directory; nothing was deleted "
                   "[other-model]"};
}

}  // namespace

// A snapshot laid out as files. The snapshot must outlive it.
class CheckpointStore::Contents {
 public:
  Contents(const Snapshot& snapshot, TrainState state);
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  // Writes and syncs every file, not the directory; the digest of state.json.
  Result<std::uint64_t> Write(FileSystem& files, const fs::path& directory);
  std::uint64_t bytes() const { return bytes_; }  // Of all files together.

 private:
  struct Part {
    std::string name;
    std::string header;
    const std::vector<Tensor>& tensors;
  };

  std::vector<Part> parts_;
  StateFile state_;  // Its digests are known once the files are written.
  std::uint64_t bytes_ = 0;
};

CheckpointStore::Contents::Contents(const Snapshot& snapshot, TrainState state) {
  static const std::vector<Tensor> kNoTensors;
  const SafetensorsMetadata metadata{
      {"format", "pt"}, {"step", std::to_string(state.step)}, {"model", state.model}};
  const auto add = [&](const char* name, const std::vector<Tensor>& tensors) {
    parts_.push_back({name, SafetensorsHeader(tensors, metadata), tensors});
    FileDigest entry{name, parts_.back().header.size(), 0};
    for (const Tensor& tensor : tensors) {
      entry.bytes += tensor.bytes.size();
    }
    bytes_ += entry.bytes;
    state_.files.push_back(std::move(entry));
  };
  parts_.reserve(3);
  add(kModel, snapshot.model);
  add(kOptimizer, snapshot.optimizer);
  add(kRankStates, kNoTensors);
  state_.state = std::move(state);
  state_.state.total_bytes = bytes_;
  // Digests have a fixed width: the text is as long now as it will be with them.
  bytes_ += ToJson(state_).size();
}

Result<std::uint64_t> CheckpointStore::Contents::Write(FileSystem& files,
                                                       const fs::path& directory) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const fs::path path = directory / parts_[i].name;
    ASSIGN_OR_RETURN(state_.files[i].xxh64,
                     files.Write(path, SafetensorsParts(parts_[i].header, parts_[i].tensors)));
    RETURN_IF_ERROR(files.Sync(path));
  }
  ASSIGN_OR_RETURN(const std::uint64_t digest, files.Write(directory / kState, {ToJson(state_)}));
  RETURN_IF_ERROR(files.Sync(directory / kState));
  return digest;
}

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
    bool other_model = false;
    Result<LoadedCheckpoint> read = Read(lineage_[i], other_model);
    if (read) {
      if (i > 0) {
        outcome.warnings.back() += "; continuing from '" + lineage_[i].directory + "'";
      }
      lineage_.erase(lineage_.begin(), lineage_.begin() + static_cast<std::ptrdiff_t>(i));
      outcome.checkpoint = *std::move(read);
      return outcome;
    }
    if (other_model) {
      return std::move(read).error();
    }
    outcome.warnings.push_back("checkpoint '" + lineage_[i].directory +
                               "' is broken: " + read.error().message);
    broken += "\n  " + lineage_[i].directory + ": " + read.error().message;
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

Result<LoadedCheckpoint> CheckpointStore::Read(const CheckpointRef& ref, bool& other_model) const {
  Result<LoadedCheckpoint> read = ReadOnce(ref, other_model);
  if (!read && read.error().kind == ErrorKind::kSystem) {
    // Perhaps it passes: falling back costs steps.
    read = ReadOnce(ref, other_model);
  }
  return read;
}

Result<LoadedCheckpoint> CheckpointStore::ReadOnce(const CheckpointRef& ref,
                                                   bool& other_model) const {
  const fs::path path = config_.directory / ref.directory;
  ASSIGN_OR_RETURN(StateFile state, ReadState(files_, path, ref.digest));
  if (std::optional<Error> mismatch = ModelMismatch(state.state, config_, path)) {
    other_model = true;
    return *std::move(mismatch);
  }
  ASSIGN_OR_RETURN(Snapshot snapshot, ReadContents(files_, path, std::move(state)));
  return LoadedCheckpoint{std::move(snapshot), ref};
}

Result<LoadedCheckpoint> CheckpointStore::LoadExactly(const CheckpointRef& ref) const {
  bool other_model = false;
  return Read(ref, other_model);
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
  Contents contents(snapshot, std::move(state));

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
    const bool full = std::ranges::any_of(std::array{ENOSPC, EDQUOT, EFBIG}, [&](int number) {
      return written.error().message.ends_with(std::strerror(number));
    });
    return full ? WithSpace(std::move(written).error(), wanted) : std::move(written).error();
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
  const auto newest = std::span(lineage_).first(std::min(config_.keep_last, lineage_.size()));
  return (best_ && best_->directory == name) || Contains(newest, name);
}

// A crash at any line leaves the old head; the new directory counts only once the record names it.
Result<std::uint64_t> CheckpointStore::Publish(Contents& contents, const fs::path& temporary,
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

#include "trainer/checkpoint/checkpoint_files.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <utility>

#include "trainer/checkpoint/digest.h"
#include "trainer/checkpoint/safetensors.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kRankStates = "rank-states.safetensors";  // Of generators: none any more.
constexpr const char* kState = "state.json";
constexpr std::size_t kMaxState = 64 << 20;

Result<std::vector<Tensor>> ReadTensors(FileSystem& files, const fs::path& directory,
                                        const StateFile& state, const std::string& name) {
  const auto listed = std::find_if(state.files.begin(), state.files.end(),
                                   [&](const FileDigest& file) { return file.name == name; });
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

// Names both models, how they differ, and what to do. None: they match.
std::optional<Error> ModelMismatch(const TrainState& state, const CheckpointConfig& config,
                                   const fs::path& checkpoint) {
  if (state.model == config.model && state.model_description == config.model_description) {
    return std::nullopt;
  }
  const std::string there = OnlyIn(state.model_description, config.model_description);
  std::string here = OnlyIn(config.model_description, state.model_description);
  if (state.model == config.model && there.empty() && here.empty()) {
    here = "the same tensors in another order";
  }
  return Error{ErrorKind::kInvalid,
               "checkpoint '" + checkpoint.native() + "' is of model " +
                   ModelText(state.model, there) + ", this program trains " +
                   ModelText(config.model, here) +
                   ": choose the same model, or another directory; nothing was deleted "
                   "[other-model]"};
}

}  // namespace

CheckpointFiles::CheckpointFiles(const Snapshot& snapshot, TrainState state) {
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

Result<std::uint64_t> CheckpointFiles::Write(FileSystem& files, const fs::path& directory) {
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

ReadOutcome ReadCheckpoint(FileSystem& files, const fs::path& path, std::uint64_t digest,
                           const CheckpointConfig& config) {
  ReadOutcome out;
  Result<StateFile> state = ReadState(files, path, digest);
  if (!state) {
    out.error = std::move(state).error();
    return out;
  }
  if (std::optional<Error> mismatch = ModelMismatch(state->state, config, path)) {
    out.error = *std::move(mismatch);
    out.other_model = true;
    return out;
  }
  Result<Snapshot> snapshot = ReadContents(files, path, *std::move(state));
  if (!snapshot) {
    out.error = std::move(snapshot).error();
    return out;
  }
  const std::string name = (path.has_filename() ? path : path.parent_path()).filename();
  out.checkpoint = LoadedCheckpoint{*std::move(snapshot), {name, digest}};
  return out;
}

}  // namespace ddprun

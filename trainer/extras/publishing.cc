#include "trainer/extras/publishing.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/format.h"
#include "trainer/checkpoint/digest.h"
#include "trainer/checkpoint/safetensors.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr const char* kParameters = "model.safetensors";
constexpr const char* kDescription = "model.json";

std::string DescriptionOf(const TrainState& state, std::uint64_t bytes, std::uint64_t digest) {
  const json out = {{"model", state.model},
                    {"parameters", state.model_description},
                    {"dataset", state.dataset},
                    {"step", state.step},
                    {"epoch", state.epoch},
                    {"hyperparameters", state.hyperparameters},
                    {"metrics", state.metrics},
                    {"versions", state.versions},
                    {"file", {{"name", kParameters}, {"bytes", bytes}, {"xxh64", Hex(digest)}}}};
  return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

// Under a name that no reader looks at.
Result<std::uint64_t> WriteBeside(FileSystem& files, const fs::path& path,
                                  const std::vector<std::string_view>& parts) {
  ASSIGN_OR_RETURN(const std::uint64_t digest, files.Write(path, parts));
  RETURN_IF_ERROR(files.Sync(path));
  return digest;
}

std::string Kind(const Tensor& tensor) {
  return std::string(EntryOf(tensor.dtype).name) + "[" +
         Joined(tensor.shape, ",", [](std::int64_t size) { return std::to_string(size); }) + "]";
}

// A model may have hundreds of tensors: the first ones tell which.
void AddList(std::string& text, const char* what, const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  if (names.empty()) {
    return;
  }
  text += (text.empty() ? "" : "; ") + std::string(what) + " " + std::to_string(names.size()) + ":";
  const std::size_t shown = std::min(names.size(), kShown);
  for (std::size_t i = 0; i < shown; ++i) {
    text += " " + names[i];
  }
  if (shown < names.size()) {
    text += " and " + std::to_string(names.size() - shown) + " more";
  }
}

}  // namespace

Result<void> Publish(FileSystem& files, const fs::path& directory,
                     const std::vector<Tensor>& parameters, const TrainState& state) {
  RETURN_IF_ERROR(files.MakeDirectory(directory));
  // For the directory's own name. Not all parents may be opened.
  (void)files.Sync(fs::absolute(directory).lexically_normal().parent_path());
  const fs::path new_parameters = directory / (std::string(".new-") + kParameters);
  const fs::path new_description = directory / (std::string(".new-") + kDescription);
  const std::string header = SafetensorsHeader(parameters, {{"format", "pt"}});
  const std::vector<std::string_view> parts = SafetensorsParts(header, parameters);
  std::uint64_t bytes = 0;
  for (const std::string_view part : parts) {
    bytes += part.size();
  }
  ASSIGN_OR_RETURN(const std::uint64_t digest, WriteBeside(files, new_parameters, parts));
  RETURN_IF_ERROR(WriteBeside(files, new_description, {DescriptionOf(state, bytes, digest)}));
  // Until the new one is there no description, rather than one of other parameters.
  RETURN_IF_ERROR(files.Remove(directory / kDescription));
  RETURN_IF_ERROR(files.Sync(directory));
  RETURN_IF_ERROR(files.Rename(new_parameters, directory / kParameters));
  RETURN_IF_ERROR(files.Rename(new_description, directory / kDescription));
  return files.Sync(directory);
}

Result<std::vector<Tensor>> ReadParameters(FileSystem& files, const fs::path& path) {
  std::error_code unknown;  // Reading it says why.
  const fs::path file = fs::is_directory(path, unknown) ? path / kParameters : path;
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max() / 2;
  ASSIGN_OR_RETURN(const DigestedBytes read, files.ReadDigested(file, kAny));
  ASSIGN_OR_RETURN(SafetensorsFile parsed, ParseSafetensors(read.bytes, file.native()));
  return std::move(parsed.tensors);
}

Result<TransferReport> Transfer(const std::vector<Tensor>& given, bool strict,
                                std::vector<Tensor>& model) {
  std::map<std::string, const Tensor*> there;
  for (const Tensor& tensor : given) {
    there[tensor.name] = &tensor;
  }
  TransferReport report;
  std::vector<Tensor> filled = model;
  std::set<std::string> mine;
  for (Tensor& tensor : filled) {
    mine.insert(tensor.name);
    const auto found = there.find(tensor.name);
    if (found == there.end()) {
      report.missing.push_back(tensor.name);
    } else if (found->second->dtype != tensor.dtype || found->second->shape != tensor.shape) {
      report.misfits.push_back(tensor.name + " (" + Kind(*found->second) + " there, " +
                               Kind(tensor) + " here)");
    } else {
      tensor.bytes = found->second->bytes;
      report.loaded.push_back(tensor.name);
    }
  }
  for (const Tensor& tensor : given) {
    if (mine.count(tensor.name) == 0) {
      report.unused.push_back(tensor.name);
    }
  }
  const bool exact = report.missing.empty() && report.unused.empty() && report.misfits.empty();
  if (report.loaded.empty() || (strict && !exact)) {
    return Error{ErrorKind::kInvalid,
                 "the parameters do not fit this model" +
                     std::string(strict ? " (--init-strict=no loads only those that do)"
                                        : ", none of them") +
                     ": " + Describe(report, /*taken=*/false)};
  }
  model = std::move(filled);
  return report;
}

std::string Describe(const TransferReport& report, bool taken) {
  std::string text;
  AddList(text, taken ? "loaded" : "fitting", report.loaded);
  AddList(text, taken ? "missing, left as initialised," : "missing", report.missing);
  AddList(text, taken ? "of another shape, left as initialised," : "of another shape",
          report.misfits);
  AddList(text, taken ? "not of this model, skipped," : "not of this model", report.unused);
  return text;
}

}  // namespace ddprun

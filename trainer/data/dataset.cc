#include "trainer/data/dataset.h"

#include <string>
#include <system_error>
#include <vector>

namespace ddprun {
std::vector<std::string> FilesThere(const std::filesystem::path& root,
                                    std::initializer_list<const char*> names) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const char* const name : names) {
    if (std::filesystem::is_regular_file(root / name, ignored)) {
      found.emplace_back(name);
    }
  }
  return found;
}

std::filesystem::path BundledDatasetRoot(std::string_view name) {
  std::error_code error;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
  return (executable.parent_path() / ".." / "share" / "ddprun" / name).lexically_normal();
}

Result<void> SplitValidation(Dataset& dataset, std::uint32_t count) {
  if (count >= dataset.train.count) {
    return Invalid("--validation-samples leaves nothing to train on",
                   std::to_string(count) + " of " + std::to_string(dataset.train.count));
  }
  const std::uint32_t first = dataset.train.count -= count;
  const auto gather = [first, all = dataset.train.gather](std::span<const std::uint32_t> indices,
                                                          const std::optional<AugmentKey>& key,
                                                          const BatchRoom& room) {
    std::vector<std::uint32_t> shifted(indices.begin(), indices.end());
    for (std::uint32_t& index : shifted) {
      index += first;
    }
    return all(shifted, key, room);
  };
  dataset.validation = Samples{count, gather};
  dataset.validation_is = "held-out training samples";
  return {};
}

}  // namespace ddprun

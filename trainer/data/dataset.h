// A data set. entries.h has the table of those the trainer knows.
//
// A batch is gathered when it is needed: from bytes in memory, or from a generator, it is augmented
// and normalised into the room that the caller gives. Gathering is pure: the same samples and key
// give the same numbers on every rank and in every order. Any thread may do it. Nothing here
// depends on libtorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "trainer/arguments.h"
#include "trainer/task.h"

namespace ddprun {

// Random changes to a sample depend on this and on the sample's index.
struct AugmentKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

struct Samples {
  std::uint32_t count = 0;
  // Writes the samples at `indices`, each below count, to `room`. Without a key they are not
  // augmented. An error: a file could not be read, and the room holds no batch.
  std::function<Result<void>(std::span<const std::uint32_t> indices,
                             const std::optional<AugmentKey>& key, const BatchRoom& room)>
      gather;
};

struct Dataset {
  Task task;
  Samples train;
  Samples test;
  std::optional<Samples> validation;       // None: the test set is used.
  std::string validation_is = "test set";  // In messages.
};

// Takes the last `count` samples of the training set away for validation; they are gathered as they
// are, without a key. kInvalid: there are not that many and one more.
Result<void> SplitValidation(Dataset& dataset, std::uint32_t count);

struct DatasetEntry {
  std::string_view name;
  // The data set whose bundled files it reads; empty: it reads none, or they must be named.
  std::string_view bundled = "";
  bool reads_files = false;
  // Returns the names of the data set's files that are under `root`.
  std::vector<std::string> (*files)(const std::filesystem::path& root) =
      [](const std::filesystem::path&) { return std::vector<std::string>(); };
  std::span<const ArgumentEntry> arguments = {};
  Task (*task)(const Arguments& arguments);
  Result<Dataset> (*load)(const std::filesystem::path& root, const Arguments& arguments);
};

// Returns those of `names` that are files under `root`.
std::vector<std::string> FilesThere(const std::filesystem::path& root,
                                    std::initializer_list<const char*> names);

// The directory of a bundled data set: ../share/ddprun/<name> beside the directory of the
// executable.
std::filesystem::path BundledDatasetRoot(std::string_view name);

}  // namespace ddprun

// Everything a training run needs to continue as if it had never stopped, as plain values.
//
// No libtorch here: the trainer copies its tensors into a Snapshot and back. The state goes to and
// from JSON (state.json) with a schema number; an unknown schema or a missing field is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/result.h"
#include "trainer/checkpoint/bytes.h"

namespace ddprun {

enum class DType { kF64, kF32, kF16, kBF16, kI64, kI32, kU8, kBool };

struct DTypeEntry {
  std::string_view name;  // As safetensors writes it.
  std::size_t size;
};
// By DType.
inline constexpr DTypeEntry kDTypes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2},
                                         {"I64", 8}, {"I32", 4}, {"U8", 1},  {"BOOL", 1}};
static_assert(std::size(kDTypes) == static_cast<std::size_t>(DType::kBool) + 1);
constexpr const DTypeEntry& EntryOf(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)];
}

struct Tensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // Empty: a scalar.
  Bytes bytes;                      // Contiguous, row-major, little-endian.
  bool operator==(const Tensor&) const = default;
};

// Which parameters' gradients are reduced together, and in what order: indexes of parameters, every
// one exactly once.
using Buckets = std::vector<std::vector<std::size_t>>;

struct TrainState {
  static constexpr std::uint32_t kSchema = 1;

  std::string model;              // "mlp"
  std::string model_description;  // Parameters and shapes in words: equal only for equal models.
  std::string dataset;

  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t samples_in_epoch = 0;  // Consumed by all ranks together, so that any world size
                                       // can continue from here.
  std::uint64_t seed = 0;
  std::uint32_t world_size = 1;
  std::uint64_t rank_batch = 0;
  std::uint64_t global_batch = 0;
  Buckets buckets;  // As DDP reduced them.
  std::map<std::string, std::string> hyperparameters;

  bool finished = false;
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::map<std::string, double> metrics;
  std::map<std::string, std::string> versions;

  // Of all so far, this one had the best validation. Not in state.json: best.json says it.
  bool best = false;

  // Filled in by CheckpointStore::Save, which overwrites older values.
  RunId run_id;
  Term term;
  Generation generation;
  WorldId world_id;
  std::string parent;  // Directory name of what was loaded or saved before; empty: a fresh start.
  std::uint64_t total_bytes = 0;
};

struct Snapshot {
  std::vector<Tensor> model;
  std::vector<Tensor> optimizer;
  TrainState state;
};

// A tensor where it lives: host memory, contiguous.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::string_view bytes;
  bool forward_changes_it = false;  // Such as the statistics of a batch norm.
};

struct SnapshotView {
  std::vector<TensorView> model;
  std::vector<TensorView> optimizer;
  // Called before the first byte is read, by the thread that reads; returns when all are there.
  // Empty: they are.
  std::function<void()> wait;
};

// Bytes of all tensors, as copied.
std::uint64_t ByteCount(const Snapshot& snapshot);

// One file of a checkpoint, as state.json lists it.
struct FileDigest {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t xxh64 = 0;
  bool operator==(const FileDigest&) const = default;
};

struct StateFile {
  TrainState state;
  std::vector<FileDigest> files;
};

std::string ToJson(const StateFile& file);
// `name` stands in the messages.
Result<StateFile> StateFileFromJson(std::string_view text, std::string_view name);

}  // namespace ddprun

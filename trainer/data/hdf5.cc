// seq2seq's kind of sequences out of an HDF5 file, seq2seq.h5: train/source and train/target,
// test/source and test/target, each [samples, positions, d_model].
#include <vector>

#include "common/check.h"
#include "trainer/data/entries.h"
#include "trainer/data/hdf5_file.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "seq2seq.h5";
constexpr ArgumentEntry kArguments[] = {{"source", 1, 1, 65536},
                                        {"target", 20, 1, 65536},
                                        {"d_model", 512, 1, 65536},
                                        {"memory", 0, 0, 1}};  // 1: all of it is read at the start.

class Sequences {
 public:
  static Result<Samples> Open(const fs::path& path, const std::string& part, const Task& task,
                              bool in_memory) {
    Sequences opened;
    for (std::size_t i = 0; i < kMaxInputs; ++i) {
      ASSIGN_OR_RETURN(
          opened.arrays_[i],
          Hdf5Array::Open(path, part + (i == 0 ? "/source" : "/target"), task.inputs[i]));
      opened.numbers_[i] = static_cast<std::size_t>(NumbersIn(task.inputs[i]));
    }
    const std::uint64_t count = opened.arrays_[0].count();
    if (count != opened.arrays_[1].count() || count > UINT32_MAX) {
      return Invalid("HDF5: " + std::to_string(count) + " sources and " +
                         std::to_string(opened.arrays_[1].count()) + " targets under " + part,
                     path.string());
    }
    for (std::size_t i = 0; in_memory && i < kMaxInputs; ++i) {
      opened.memory_[i].resize(count * opened.numbers_[i]);
      RETURN_IF_ERROR(opened.arrays_[i].Read(0, count, opened.memory_[i].data()));
    }
    const auto shared = std::make_shared<const Sequences>(std::move(opened));
    return Samples{
        static_cast<std::uint32_t>(count),
        [shared](std::span<const std::uint32_t> indices, const std::optional<AugmentKey>&,
                 const BatchRoom& room) { return shared->Gather(indices, room); }};
  }

 private:
  Result<void> Gather(std::span<const std::uint32_t> indices, const BatchRoom& room) const {
    for (std::size_t i = 0; i < kMaxInputs; ++i) {
      float* out = room.inputs[i];
      for (const std::uint32_t index : indices) {
        if (memory_[i].empty()) {
          RETURN_IF_ERROR(arrays_[i].Read(index, 1, out));
        } else {
          std::copy_n(memory_[i].data() + index * numbers_[i], numbers_[i], out);
        }
        out += numbers_[i];
      }
    }
    std::copy_n(room.inputs[1], indices.size() * numbers_[1], room.targets);  // To be predicted.
    return {};
  }

  std::array<Hdf5Array, kMaxInputs> arrays_;
  std::array<std::size_t, kMaxInputs> numbers_{};
  std::array<std::vector<float>, kMaxInputs> memory_;
};

Result<Dataset> LoadSequences(const fs::path& root, const Arguments& arguments) {
  Dataset dataset{.task = SequenceTask(arguments)};
  const bool in_memory = arguments.Whole("memory") == 1;
  ASSIGN_OR_RETURN(dataset.train, Sequences::Open(root / kFile, "train", dataset.task, in_memory));
  ASSIGN_OR_RETURN(dataset.test, Sequences::Open(root / kFile, "test", dataset.task, in_memory));
  return dataset;
}

}  // namespace

constinit const DatasetEntry kHdf5 = {
    .name = "hdf5",
    .reads_files = true,
    .files = [](const fs::path& root) { return FilesThere(root, {kFile}); },
    .arguments = kArguments,
    .task = SequenceTask,
    .load = LoadSequences};

}  // namespace ddprun

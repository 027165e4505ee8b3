// For the tests in other languages: writes a checkpoint, prints a safetensors file, fills a disk.
//
//   checkpoint_tool write DIR    saves a checkpoint there, prints the path of its directory
//   checkpoint_tool print FILE   "name dtype shape byte-sum" of each tensor, sorted by name
//   checkpoint_tool fill DIR     DIR is a file system of 1 MB: a save too large for it, and one
//                                without an inode left, fail and cost nothing else
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "trainer/checkpoint/checkpoint_fixtures.h"
#include "trainer/checkpoint/safetensors.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

int Fail(const std::string& why) {
  std::fprintf(stderr, "checkpoint_tool: %s\n", why.c_str());
  return 1;
}

Tensor Filled(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
  std::size_t bytes = SizeOf(dtype);
  for (const std::int64_t size : shape) {
    bytes *= static_cast<std::size_t>(size);
  }
  std::string values(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    values[i] = static_cast<char>(dtype == DType::kBool ? i % 2 : i % 61);
  }
  return {name, dtype, std::move(shape), std::move(values)};
}

int Write(const fs::path& directory) {
  CheckpointStore store(RealFileSystem(), ConfigFor(directory));
  if (const auto claimed = store.Claim(World("tool", 1)); !claimed) {
    return Fail(claimed.error().message);
  }
  Snapshot snapshot = SnapshotAt(12);
  for (const DType dtype : {DType::kF64, DType::kI64, DType::kF32, DType::kI32, DType::kF16,
                            DType::kU8, DType::kBool}) {
    snapshot.model.push_back(Filled("layer." + std::string(NameOf(dtype)), dtype, {3, 5}));
  }
  snapshot.model.push_back(Filled("num_batches_tracked", DType::kI64, {}));
  snapshot.model.push_back(Filled("nothing", DType::kF32, {0, 7}));
  const Result<SaveReport> report = store.Save(snapshot);
  if (!report) {
    return Fail(report.error().message);
  }
  std::printf("%s\n", (directory / report->ref.directory).c_str());
  return 0;
}

int Print(const fs::path& path) {
  const Result<std::string> bytes = RealFileSystem().Read(path, 1 << 28);
  if (!bytes) {
    return Fail(bytes.error().message);
  }
  Result<SafetensorsFile> file = ParseSafetensors(*bytes, path.native());
  if (!file) {
    return Fail(file.error().message);
  }
  std::sort(file->tensors.begin(), file->tensors.end(),
            [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
  for (const Tensor& tensor : file->tensors) {
    std::string shape;
    for (const std::int64_t size : tensor.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    }
    unsigned long long sum = 0;
    for (const unsigned char byte : std::string_view(tensor.bytes)) {
      sum += byte;
    }
    std::printf("%s %s [%s] %llu\n", tensor.name.c_str(), std::string(NameOf(tensor.dtype)).c_str(),
                shape.c_str(), sum);
  }
  return 0;
}

int Fill(const fs::path& directory) {
  CheckpointStore store(RealFileSystem(), ConfigFor(directory));
  if (const auto claimed = store.Claim(World("tool", 1)); !claimed) {
    return Fail(claimed.error().message);
  }
  if (const auto saved = store.Save(SnapshotAt(1)); !saved) {
    return Fail(saved.error().message);
  }
  Snapshot large = SnapshotAt(2);
  large.model.push_back(Filled("large", DType::kU8, {2 << 20}));
  const Result<SaveReport> refused = store.Save(large);
  if (refused) {
    return Fail("2 MB fitted into 1 MB");
  }
  std::printf("too large: %s\n", refused.error().message.c_str());
  int files = 0;
  while (std::ofstream(directory / ("filler-" + std::to_string(files)))) {
    ++files;
  }
  const Result<SaveReport> full = store.Save(SnapshotAt(3));
  if (full) {
    return Fail("a save without inodes succeeded");
  }
  std::printf("full: %s\n", full.error().message.c_str());
  for (int i = 0; i <= files; ++i) {
    fs::remove(directory / ("filler-" + std::to_string(i)));
  }
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().filename().native().starts_with(".")) {
      return Fail("left behind: " + entry.path().native());
    }
  }
  const Result<LoadOutcome> loaded = store.Load();
  if (!loaded || !loaded->checkpoint || loaded->checkpoint->snapshot.state.step != 1) {
    return Fail("the older checkpoint is gone");
  }
  const auto saved = store.Save(SnapshotAt(4));
  return saved ? 0 : Fail(saved.error().message);
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::string verb = argc == 3 ? argv[1] : "";
  if (verb == "write") {
    return ddprun::Write(argv[2]);
  }
  if (verb == "print") {
    return ddprun::Print(argv[2]);
  }
  if (verb == "fill") {
    return ddprun::Fill(argv[2]);
  }
  return ddprun::Fail("usage: checkpoint_tool write DIR | print FILE | fill DIR");
}

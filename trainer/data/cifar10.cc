#include <string>
#include <utility>

#include "trainer/data/entries.h"
#include "trainer/data/images.h"
#include "trainer/data/mapped_file.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kSide = 32;
constexpr std::uint32_t kClasses = 10;
constexpr std::uint32_t kImageBytes = 3 * kSide * kSide;
constexpr std::uint32_t kRecordBytes = 1 + kImageBytes;
constexpr std::uint32_t kRecords = 10'000;
constexpr const char* kFolder = "cifar-10-batches-bin";  // As the archive unpacks.

// Of the training set's pixels, the usual constants.
constexpr ImageFormat kFormat = {.planes = 3,
                                 .stored_side = kSide,
                                 .channels = 3,
                                 .side = kSide,
                                 .mean = {0.4914, 0.4822, 0.4465},
                                 .deviation = {0.2470, 0.2435, 0.2616},
                                 .crop_padding = 4,
                                 .flip = true};

Result<MappedFile> OpenBatch(const fs::path& path) {
  ASSIGN_OR_RETURN(MappedFile file, MapFile(path));
  const std::span<const std::uint8_t> bytes = file.bytes;
  if (bytes.size() != std::size_t{kRecords} * kRecordBytes) {
    return BadFile(path, std::to_string(bytes.size()) + " bytes instead of the " +
                             std::to_string(std::size_t{kRecords} * kRecordBytes) +
                             " of 10,000 records (is it the binary version of CIFAR-10?)");
  }
  for (std::size_t record = 0; record < kRecords; ++record) {
    if (const std::uint8_t label = bytes[record * kRecordBytes]; label >= kClasses) {
      return BadFile(path, "label " + std::to_string(label) + " in record " +
                               std::to_string(record) + "; labels are 0 to 9");
    }
  }
  return file;
}

Result<Samples> LoadSamples(const fs::path& root, const std::vector<std::string>& names) {
  ImageBytes out{.per_piece = kRecords,
                 .image_stride = kRecordBytes,
                 .label_stride = kRecordBytes,
                 .pieces = {},
                 .owner = {}};
  auto files = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (const std::string& name : names) {
    std::error_code ignored;
    const fs::path nested = root / kFolder / name;
    ASSIGN_OR_RETURN(MappedFile file,
                     OpenBatch(fs::exists(nested, ignored) ? nested : root / name));
    const std::uint8_t* const data = file.bytes.data();
    out.pieces.push_back({data + 1, data});
    out.count += kRecords;
    files->push_back(std::move(file.owner));
  }
  out.owner = std::move(files);
  return MakeImageSamples(kFormat, std::move(out));
}

std::vector<std::string> Files(const fs::path& root) {
  const fs::path nested = root / kFolder;
  std::error_code ignored;
  std::vector<std::string> files =
      FilesThere(fs::exists(nested, ignored) ? nested : root,
                 {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                  "data_batch_5.bin", "test_batch.bin"});
  if (fs::exists(nested, ignored)) {
    for (std::string& file : files) {
      file = kFolder + ("/" + file);
    }
  }
  return files;
}

Result<Dataset> Load(const fs::path& root, const Arguments&) {
  ASSIGN_OR_RETURN(Samples train,
                   LoadSamples(root, {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                      "data_batch_4.bin", "data_batch_5.bin"}));
  ASSIGN_OR_RETURN(Samples test, LoadSamples(root, {"test_batch.bin"}));
  return Dataset{ImageTask(kFormat, kClasses), std::move(train), std::move(test)};
}

}  // namespace

constinit const DatasetEntry kCifar10 = {
    .name = "cifar10",
    .reads_files = true,
    .files = Files,
    .task = [](const Arguments&) { return ImageTask(kFormat, kClasses); },
    .load = Load};

}  // namespace ddprun

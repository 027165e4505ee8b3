#include <algorithm>
#include <string>
#include <utility>

#include "trainer/data/entries.h"
#include "trainer/data/idx.h"
#include "trainer/data/images.h"
#include "trainer/data/mapped_file.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kSide = 28;
constexpr std::uint32_t kClasses = 10;
// Of the training set's pixels, the usual constants.
constexpr std::array<double, 3> kMean = {0.1307, 0.1307, 0.1307};
constexpr std::array<double, 3> kDeviation = {0.3081, 0.3081, 0.3081};

constexpr ImageFormat kPlain = {
    .stored_side = kSide, .side = kSide, .mean = kMean, .deviation = kDeviation};
// Cropped like CIFAR-10, but never flipped: a mirrored digit is another one.
constexpr ImageFormat kPadded = {.stored_side = kSide,
                                 .channels = 3,
                                 .side = 32,
                                 .mean = kMean,
                                 .deviation = kDeviation,
                                 .crop_padding = 4};

Result<fs::path> FindFile(const fs::path& root, const std::string& name) {
  std::error_code ignored;
  for (const fs::path& path : {root / name, root / (name + ".gz")}) {
    if (fs::exists(path, ignored)) {
      return path;
    }
  }
  return Error{ErrorKind::kNotFound,
               "MNIST: neither " + name + " nor " + name + ".gz is in '" + root.string() +
                   "' (--data-root=DIR names the directory of the four files)"};
}

Result<ImageBytes> LoadBytes(const fs::path& root, const std::string& prefix) {
  ASSIGN_OR_RETURN(const fs::path image_path, FindFile(root, prefix + "-images-idx3-ubyte"));
  ASSIGN_OR_RETURN(const fs::path label_path, FindFile(root, prefix + "-labels-idx1-ubyte"));
  ASSIGN_OR_RETURN(IdxArray images, ReadIdx(image_path, 3));
  ASSIGN_OR_RETURN(IdxArray labels, ReadIdx(label_path, 1));
  if (images.dimensions[1] != kSide || images.dimensions[2] != kSide) {
    return BadFile(image_path, "images of " + std::to_string(images.dimensions[1]) + "x" +
                                   std::to_string(images.dimensions[2]) + " instead of 28x28");
  }
  if (images.dimensions[0] != labels.dimensions[0]) {
    return Error{ErrorKind::kInvalid, "'" + image_path.string() + "' has " +
                                          std::to_string(images.dimensions[0]) + " images, but '" +
                                          label_path.string() + "' has " +
                                          std::to_string(labels.dimensions[0]) + " labels"};
  }
  const auto largest = std::max_element(labels.bytes.begin(), labels.bytes.end());
  if (*largest >= kClasses) {
    return BadFile(label_path, "label " + std::to_string(*largest) + " at place " +
                                   std::to_string(largest - labels.bytes.begin()) +
                                   "; labels are 0 to 9");
  }
  const std::uint32_t count = images.dimensions[0];
  const auto owner =
      std::make_shared<const std::pair<IdxArray, IdxArray>>(std::move(images), std::move(labels));
  return ImageBytes{.count = count,
                    .per_piece = count,
                    .image_stride = kSide * kSide,
                    .label_stride = 1,
                    .pieces = {{owner->first.bytes.data(), owner->second.bytes.data()}},
                    .owner = owner};
}

std::vector<std::string> Files(const fs::path& root) {
  return FilesThere(
      root, {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte",
             "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz",
             "t10k-labels-idx1-ubyte", "t10k-labels-idx1-ubyte.gz"});
}

Result<Dataset> Load(const fs::path& root, const ImageFormat& format) {
  ASSIGN_OR_RETURN(ImageBytes train, LoadBytes(root, "train"));
  ASSIGN_OR_RETURN(ImageBytes test, LoadBytes(root, "t10k"));
  return Dataset{ImageTask(format, kClasses), MakeImageSamples(format, std::move(train)),
                 MakeImageSamples(format, std::move(test))};
}

}  // namespace

constinit const DatasetEntry kMnist = {
    .name = "mnist",
    .bundled = "mnist",
    .reads_files = true,
    .files = Files,
    .task = [](const Arguments&) { return ImageTask(kPlain, kClasses); },
    .load = [](const fs::path& root, const Arguments&) { return Load(root, kPlain); }};

constinit const DatasetEntry kMnist32 = {
    .name = "mnist32",
    .bundled = "mnist",
    .reads_files = true,
    .files = Files,
    .task = [](const Arguments&) { return ImageTask(kPadded, kClasses); },
    .load = [](const fs::path& root, const Arguments&) { return Load(root, kPadded); }};

}  // namespace ddprun

#include "trainer/datasets/mnist.h"

#include <algorithm>
#include <string>
#include <utility>

#include "trainer/datasets/idx.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kSide = 28;
constexpr std::uint32_t kClasses = 10;
// Of the training set's pixels, the usual constants.
constexpr double kMean = 0.1307;
constexpr double kDeviation = 0.3081;

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

Result<Samples> LoadSamples(const fs::path& root, const std::string& prefix) {
  ASSIGN_OR_RETURN(const fs::path image_path, FindFile(root, prefix + "-images-idx3-ubyte"));
  ASSIGN_OR_RETURN(const fs::path label_path, FindFile(root, prefix + "-labels-idx1-ubyte"));
  ASSIGN_OR_RETURN(IdxArray images, ReadIdx(image_path, 3));
  ASSIGN_OR_RETURN(IdxArray labels, ReadIdx(label_path, 1));
  if (images.dimensions[1] != kSide || images.dimensions[2] != kSide) {
    return Error{ErrorKind::kInvalid, "cannot use the data file '" + image_path.string() +
                                          "': images of " + std::to_string(images.dimensions[1]) +
                                          "x" + std::to_string(images.dimensions[2]) +
                                          " instead of 28x28"};
  }
  if (images.dimensions[0] != labels.dimensions[0]) {
    return Error{ErrorKind::kInvalid, "'" + image_path.string() + "' has " +
                                          std::to_string(images.dimensions[0]) + " images, but '" +
                                          label_path.string() + "' has " +
                                          std::to_string(labels.dimensions[0]) + " labels"};
  }
  const auto largest = std::max_element(labels.bytes.begin(), labels.bytes.end());
  if (*largest >= kClasses) {
    return Error{ErrorKind::kInvalid, "cannot use the data file '" + label_path.string() +
                                          "': label " + std::to_string(*largest) + " at place " +
                                          std::to_string(largest - labels.bytes.begin()) +
                                          "; labels are 0 to 9"};
  }
  return Samples{images.dimensions[0], kSide * kSide, std::move(images.bytes),
                 std::move(labels.bytes)};
}

}  // namespace

Result<Dataset> LoadMnist(const fs::path& root) {
  ASSIGN_OR_RETURN(Samples train, LoadSamples(root, "train"));
  ASSIGN_OR_RETURN(Samples test, LoadSamples(root, "t10k"));
  return Dataset{kClasses, NormalisationTable(kMean, kDeviation), std::move(train),
                 std::move(test)};
}

}  // namespace ddprun

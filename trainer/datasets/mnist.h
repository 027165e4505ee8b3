// MNIST (Y. LeCun, C. Cortes, C. Burges): four IDX files under one directory, each plain or .gz.
#pragma once

#include <filesystem>

#include "trainer/datasets/dataset.h"

namespace ddprun {

// Checks shapes, counts and labels; the error names the file and what was expected of it.
Result<Dataset> LoadMnist(const std::filesystem::path& root);

}  // namespace ddprun

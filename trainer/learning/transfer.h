// Old parameters for a new training: which of them fit this model, and what to tell about it.
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

struct TransferReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;  // Of this model, and not in the file: as initialised.
  std::vector<std::string> unused;   // In the file, and not of this model.
  std::vector<std::string> misfits;  // In both, with other shapes or types: "name: [5] there, ...".
};

// Puts into `model` what `given` has for it. `strict`: an error that names everything that does not
// fit, and nothing is changed. Nothing that fits at all is an error either way.
Result<TransferReport> Transfer(const std::vector<Tensor>& given, bool strict,
                                std::vector<Tensor>& model);

// A line each; empty lists are left out.
std::string Describe(const TransferReport& report);

}  // namespace ddprun

// A token that the nodes of one run have in common because they share a directory, where nobody has
// given them one.
//
//   <run directory>/token-<run id>   mode 0600; who comes first draws it
#pragma once

#include <filesystem>
#include <string>

#include "common/ids.h"
#include "common/result.h"

namespace ddprun {

// The file's name, for --token-file. It is whole from the moment it is there: made beside and
// linked to its name, which only one node can do.
Result<std::string> ShareToken(const std::filesystem::path& run_dir, const RunId& run_id);

}  // namespace ddprun

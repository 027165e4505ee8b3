// A node-local copy of data files, made once per node and shared by its ranks.
//
// Local rank 0 copies under another name and renames when all is there, so nobody ever sees a part;
// the others wait for that, as long as it takes: the caller knows whether that rank lives. A copy
// that a crash or a power cut took some of is made afresh; one that is complete is used again as
// long as the originals have the same names, sizes and times. Two trainings on one node may stage
// at once: a lock that dies with its holder keeps them apart. A directory that others can write to,
// or own, is refused: what is found there would be theirs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/result.h"

namespace ddprun {

struct StagePlan {
  std::filesystem::path source;
  std::vector<std::string> files;   // Below source.
  std::filesystem::path directory;  // Node-local; made if need be.
  std::string name;                 // Of the data set, for people.
};

// The directory to read from instead of plan.source. `copies`: this is the rank that does the work.
// `say` gets what is being done.
Result<std::filesystem::path> Stage(const StagePlan& plan, bool copies,
                                    const std::function<void(const std::string&)>& say);

}  // namespace ddprun

// `ddprun new DIR`: a C++ project that trains a model of its own with ddprun's trainer library,
// made of examples/cpp/mlp.
#pragma once

#include <filesystem>
#include <string>

#include "common/result.h"

namespace ddprun {

struct NewProjectRequest {
  std::filesystem::path directory;  // Its last part names the program.
};

// Makes the directory and its files; nothing that exists is changed. Says, for stdout, how to build
// it. kInvalid: the directory exists, or its name is no name of a CMake target.
Result<std::string> MakeNewProject(const NewProjectRequest& request);

}  // namespace ddprun

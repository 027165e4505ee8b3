#include "launcher/verbs/new_project.h"

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "common/files.h"
#include "common/text.h"
#include "launcher/verbs/example_files.h"

namespace ddprun {
namespace {

constexpr std::size_t kLongestName = 60;

bool IsTargetName(std::string_view name) {
  return HasOnly(name, "_-") && name.size() <= kLongestName && name != "test";
}

std::string ForProgram(std::string text, const std::string& name) {
  ReplaceAll(text, "mlp", name);  // The example's.
  return text;
}

Result<void> Make(const std::filesystem::path& directory, const std::string& name) {
  if (::mkdir(directory.c_str(), 0777) != 0) {
    return errno == EEXIST
               ? Error{ErrorKind::kInvalid,
                       "'" + directory.native() + "' exists already, and nothing was changed"}
               : SystemError("make the directory", directory.native(), errno);
  }
  const std::string test =
      "\n# Trains for one epoch: ctest --test-dir build\nenable_testing()\n"
      "add_test(NAME trains COMMAND " +
      name + " --epochs=1 --resume=never)\n";
  RETURN_IF_ERROR(WriteWhole(directory / "CMakeLists.txt",
                             ForProgram(std::string(kProjectCMake), name) + test, 0666));
  return WriteWhole(directory / "main.cc", ForProgram(std::string(kProjectMain), name), 0666);
}

}  // namespace

Result<std::string> MakeNewProject(const NewProjectRequest& request) {
  const std::filesystem::path directory =
      request.directory.has_filename() ? request.directory : request.directory.parent_path();
  const std::string name = directory.filename().native();
  if (!IsTargetName(name)) {
    return Error{ErrorKind::kInvalid, "the last part of '" + request.directory.native() +
                                          "' names the program: it must have only letters, digits, "
                                          "'-' and '_'"};
  }
  RETURN_IF_ERROR(Make(directory, name));
  const std::string& shown = directory.native();
  return "made " + shown + "/CMakeLists.txt and " + shown +
         "/main.cc. To build it, with ddprun's trainer library in PREFIX:\n  cmake -S " + shown +
         " -B " + shown +
         "/build -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=PREFIX\n  cmake --build " + shown +
         "/build\n  ddprun --nproc-per-node=2 " + shown + "/build/" + name + "\n";
}

}  // namespace ddprun

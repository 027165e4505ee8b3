#include "agent/workers/python_hook.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

// Files that the hook consists of, as the build made them (agent/CMakeLists.txt).
__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    "ddprun_hook_module_begin: .incbin \"" DDPRUN_HOOK_MODULE
    "\"\n"
    "ddprun_hook_module_end:\n"
    ".balign 16\n"
    "ddprun_hook_library_begin: .incbin \"" DDPRUN_HOOK_LIBRARY
    "\"\n"
    "ddprun_hook_library_end:\n"
    ".previous\n");
extern "C" const char ddprun_hook_module_begin[];
extern "C" const char ddprun_hook_module_end[];
extern "C" const char ddprun_hook_library_begin[];
extern "C" const char ddprun_hook_library_end[];

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::string_view Between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

Error Cannot(const std::string& option) {
  return {ErrorKind::kInvalid, "--preload cannot go with Python's " + option};
}

// Short options that may be written together, and change nothing of how sys.path begins.
constexpr std::string_view kHarmless = "bBdiOqRsuvx";

}  // namespace

Result<PythonProgram> ReadPythonCommand(const Command& command, const fs::path& directory) {
  const std::string name = fs::path(command.argv.at(0)).filename().native();
  if (!name.starts_with("python") || !std::all_of(name.begin() + 6, name.end(), [](char c) {
        return c == '.' || (c >= '0' && c <= '9');
      })) {
    return Error{ErrorKind::kInvalid,
                 "--preload is for Python programs, and '" + command.argv[0] + "' is not Python"};
  }
  const auto& argv = command.argv;
  for (std::size_t i = 1; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    if (word.size() < 2 || word[0] != '-') {
      if (word == "-") {
        return Cannot("standard input as its script");
      }
      std::error_code ignored;
      const fs::path script = fs::weakly_canonical(directory / word, ignored);
      if (fs::is_directory(script, ignored) || script.extension() == ".zip") {
        return Cannot("directories and archives: name a file or -m MODULE");
      }
      return PythonProgram{"file", (directory / word).native(), script.parent_path().native()};
    }
    for (std::size_t at = 1; at < word.size(); ++at) {
      const char option = word[at];
      const bool last = at + 1 == word.size();
      if (kHarmless.find(option) != std::string_view::npos) {
        continue;
      }
      const std::string value = !last                 ? word.substr(at + 1)
                                : i + 1 < argv.size() ? argv[i + 1]
                                                      : "";
      if (option == 'm') {
        return PythonProgram{"module", value, directory.native()};
      }
      if (option == 'c') {  // ddprun's own --run-path: its program is a file.
        const bool runs_file = value.find("runpy.run_path(") != std::string::npos;
        return i + 2 < argv.size() && last && runs_file ? PythonProgram{"file", argv[i + 2], ""}
                                                        : PythonProgram{"text", value, ""};
      }
      if (option != 'W' && option != 'X') {
        return Cannot("option " + word);
      }
      i += last ? 1 : 0;
      break;
    }
  }
  return Cannot("prompt: there is no script");
}

Result<UniqueFd> AddPythonHook(const fs::path& directory, const std::string& preload,
                               WorkerSpec& spec) {
  std::error_code ignored;
  ASSIGN_OR_RETURN(
      const PythonProgram program,
      ReadPythonCommand(spec.command,
                        spec.directory.empty() ? fs::current_path(ignored) : spec.directory));
  RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  RETURN_IF_ERROR(WriteWhole(directory / "sitecustomize.py",
                             Between(ddprun_hook_module_begin, ddprun_hook_module_end), 0600));
  UniqueFd library(::memfd_create("ddprun-template", MFD_CLOEXEC));
  if (!library) {
    return SystemError("make", "a memory file for --preload", errno);
  }
  RETURN_IF_ERROR(WriteAll(library.get(),
                           Between(ddprun_hook_library_begin, ddprun_hook_library_end),
                           "a memory file for --preload"));
  const auto before = spec.environment.find("PYTHONPATH");
  const bool had = before != spec.environment.end();
  nlohmann::json hook = {{"library", library.get()}, {"preload", preload},
                         {"kind", program.kind},     {"program", program.name},
                         {"path", program.path},     {"pythonpath", nullptr}};
  hook["arguments"] =
      std::vector<std::string>(spec.command.argv.begin() + 1, spec.command.argv.end());
  if (had) {
    hook["pythonpath"] = before->second;
  }
  spec.environment["PYTHONPATH"] =
      directory.native() + (had && !before->second.empty() ? ":" + before->second : "");
  // What is no UTF-8 in arguments is replaced: the hook then finds other ones than its own, and
  // goes.
  spec.environment["DDPRUN_TEMPLATE_HOOK"] =
      hook.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return library;
}

}  // namespace ddprun

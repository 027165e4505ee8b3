#include "agent/workers/python_hook.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "proto/memory_block.h"

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

constexpr const char* kHookVariable = "DDPRUN_TEMPLATE_HOOK";

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
      return PythonProgram{"file", (directory / word).native(), script.parent_path().native(), i,
                           ""};
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
      const std::string before = at == 1 ? "" : word.substr(0, at);
      if (option == 'm') {
        return PythonProgram{"module", value, directory.native(), i, before};
      }
      if (option == 'c') {  // ddprun's own --run-path: its program is a file.
        const bool runs_file = value.find("runpy.run_path(") != std::string::npos;
        return i + 2 < argv.size() && last && runs_file
                   ? PythonProgram{"file", argv[i + 2], "", i, before}
                   : PythonProgram{"text", value, "", i, before};
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

Result<PythonHook> AddPythonHook(const std::string& preload, const WorkerSpec& worker) {
  std::error_code ignored;
  ASSIGN_OR_RETURN(
      const PythonProgram program,
      ReadPythonCommand(worker.command,
                        worker.directory.empty() ? fs::current_path(ignored) : worker.directory));
  if (const auto safe = worker.environment.find("PYTHONSAFEPATH");
      safe != worker.environment.end() && !safe->second.empty()) {
    return Cannot("PYTHONSAFEPATH");
  }
  PythonHook hook{.spec = worker};
  for (const std::string_view bytes :
       {Between(ddprun_hook_module_begin, ddprun_hook_module_end),
        Between(ddprun_hook_library_begin, ddprun_hook_library_end)}) {
    UniqueFd file(::memfd_create("ddprun-template", MFD_CLOEXEC));
    if (!file) {
      return SystemError("make", "a memory file for --preload", errno);
    }
    file = UniqueFd(::fcntl(file.get(), F_DUPFD_CLOEXEC, kAboveBlocks));
    if (!file) {
      return SystemError("make", "a memory file for --preload", errno);
    }
    RETURN_IF_ERROR(WriteAll(file.get(), bytes, "a memory file for --preload"));
    hook.spec.kept.push_back(file.get());
    hook.carried.push_back(std::move(file));
  }
  const std::string entry = "/proc/self/fd/" + std::to_string(hook.carried[0].get());
  const auto before = worker.environment.find("PYTHONPATH");
  const bool had = before != worker.environment.end();
  const auto& argv = worker.command.argv;
  const auto begin = argv.begin() + static_cast<std::ptrdiff_t>(program.at);
  nlohmann::json told = {{"module", hook.carried[0].get()},
                         {"library", hook.carried[1].get()},
                         {"agent", ::getpid()},
                         {"entry", entry},
                         {"preload", preload},
                         {"kind", program.kind},
                         {"program", program.name},
                         {"path", program.path},
                         {"probe", false},
                         {"pythonpath", nullptr}};
  told["arguments"] = std::vector<std::string>(argv.begin() + 1, argv.end());
  told["tail"] = std::vector<std::string>(begin, argv.end());
  if (had) {
    told["pythonpath"] = before->second;
  }
  // What is no UTF-8 in arguments is replaced: the hook then finds other ones than its own, and
  // goes.
  const auto text = [&] {
    return told.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  };
  hook.spec.environment["PYTHONPATH"] =
      entry + (had && !before->second.empty() ? ":" + before->second : "");
  // pyarrow's allocator starts a thread otherwise. Workers have the variable as it was given.
  std::string& allocator = hook.spec.environment["JE_ARROW_MALLOC_CONF"];
  if (allocator.find("background_thread") == std::string::npos) {
    allocator += allocator.empty() ? "background_thread:false" : ",background_thread:false";
  }
  hook.probe = hook.spec;
  hook.spec.environment[kHookVariable] = text();
  told["probe"] = true;
  hook.probe.environment[kHookVariable] = text();
  std::vector<std::string> asked(argv.begin(), begin);
  asked.insert(asked.end(), {program.options.empty() ? "-c" : program.options + "c", ""});
  hook.probe.command.argv = std::move(asked);
  return hook;
}

}  // namespace ddprun

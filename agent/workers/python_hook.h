// Makes a Python command a template (--preload): a module called sitecustomize, put before all
// others, waits inside the interpreter's own start-up (template_hook/sitecustomize.py).
//
// Refused where the interpreter would not load it, since it would run the script then.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "agent/workers/worker_spec.h"
#include "common/files.h"
#include "common/result.h"

namespace ddprun {

// What an interpreter was told to run, by its arguments.
struct PythonProgram {
  std::string kind;  // "file", "module" or "text".
  std::string name;  // Its path, name or source.
  std::string path;  // What Python will put first into sys.path.
};

// `directory` is the one that the command will run in. The error says which option is in the way.
Result<PythonProgram> ReadPythonCommand(const Command& command,
                                        const std::filesystem::path& directory);

// Writes the hook into `directory`, which is made, and changes the spec so that it is found.
// Returns a library that the hook loads: a descriptor that the template must get. Waits for the
// disk.
Result<UniqueFd> AddPythonHook(const std::filesystem::path& directory, const std::string& preload,
                               WorkerSpec& spec);

}  // namespace ddprun

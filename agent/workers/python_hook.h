// Puts a module called sitecustomize before all others, which acts inside the start-up of a Python
// interpreter, out of the program's sight (python_hook/sitecustomize.py). It makes a command a
// preload process (--preload), and a worker one that is watched (--hang-timeout).
//
// An interpreter that did not load it would run a preload process's script, without a rank. So it
// is asked first whether it does, with an empty program in the script's place (AsProbe): a wrapper,
// a path file or an option may be in the way. The hook is a memory file, so no disk is in it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "agent/workers/worker_spec.h"
#include "common/files.h"
#include "common/result.h"

namespace ddprun {

// The program in an interpreter's arguments. A script is Python where its first line
// says so: `#!/usr/bin/python3`, `#!/usr/bin/env python3`, or the `#!/bin/sh` that pip writes.
struct PythonProgram {
  std::vector<std::string> argv;   // As the interpreter will find it.
  std::vector<std::string> start;  // Starts that interpreter; its arguments are to be added.
  std::string kind;                // "file", "module" or "text".
  std::string name;                // Its path, name or source.
  std::string path;                // The path that Python will put first into sys.path.
  std::size_t at = 0;              // Index in argv of the first argument that names the program.
  std::string options;             // Options in the same word as the program's: "-u" of "-um".
  std::size_t arguments = 0;       // Index in argv of the program's first own argument.
};

// `directory` is the one that the command will run in. Reads the first lines of a script. The error
// says which option is in the way.
Result<PythonProgram> ReadPythonCommand(const Command& command,
                                        const std::filesystem::path& directory);

struct PythonHook {
  WorkerSpec spec;   // Of the preload process.
  WorkerSpec probe;  // Of the interpreter that reports whether it loads the hook.
  UniqueFd file;     // The file that both get beside their three descriptors.
};
struct PythonHookRequest {
  std::string preload;      // --preload's modules, or "imports".
  bool background = false;  // Loads at low priority; output is dropped.
  bool keep = false;        // It may outlive the run, so all that it loads must be as it was.
  // Variables that workers have and the preload process has not. A module that asks for one is not
  // loaded ahead.
  std::set<std::string> own;
};
Result<PythonHook> AddPythonHook(const PythonHookRequest& request, const WorkerSpec& worker);

// The worker is watched once it loads torch.distributed (python_hook/_ddprun_watch.py), if it is
// started from its file. Changes nothing of a program that is not Python, or has options that keep
// an interpreter from loading the hook.
void AddWatchHook(WorkerSpec& worker);

}  // namespace ddprun

#include "agent/workers/python_hook.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "common/files.h"
#include "common/text.h"
#include "proto/memory_block.h"

// In python_hook/embedded.cc.
extern "C" const char ddprun_python_hook_begin[];
extern "C" const char ddprun_python_hook_end[];

namespace ddprun {
namespace {

namespace fs = std::filesystem;

Error Cannot(const std::string& option) {
  return {ErrorKind::kInvalid, "--preload cannot go with Python's " + option};
}

constexpr const char* kHookVariable = "DDPRUN_PRELOAD_HOOK";

// Short options that may be written together, and change nothing of how sys.path begins.
constexpr std::string_view kHarmless = "bBdiOqRsuvx";

constexpr std::size_t kMostOfFirstLines = 16 * 1024;

bool IsPython(const std::string& program) {
  const std::string name = fs::path(program).filename().native();
  return name.starts_with("python") &&
         std::all_of(name.begin() + 6, name.end(), [](char c) { return IsDigit(c) || c == '.'; });
}

bool IsCalled(const std::string& program, const char* name) {
  return fs::path(program).filename() == name;
}

// The argv that an interpreter will have, and a command that starts it.
struct Interpreted {
  std::vector<std::string> argv;
  std::vector<std::string> start;
};

// `env [-S] [NAME=value...] python3 ...`
Interpreted BehindEnv(const std::string& env, std::vector<std::string> words) {
  if (!words.empty() && words[0].starts_with("-S")) {
    words[0].erase(0, 2);
    words.erase(words.begin(), words.begin() + (words[0].empty() ? 1 : 0));
  }
  const auto python = std::ranges::find_if(
      words, [](const std::string& word) { return word.find('=') == std::string::npos; });
  Interpreted found{.argv = {python, words.end()}, .start = {env}};
  found.start.insert(found.start.end(), words.begin(), python == words.end() ? python : python + 1);
  return found;
}

// `#!/bin/sh` and, in the next line, `'''exec' PYTHON "$0" "$@"`: pip and uv write it where the
// path is too long for a first line. PYTHON is quoted, and may be for the shell to expand.
Interpreted BehindShell(const std::string& shell, const std::string& script,
                        const std::string& line) {
  constexpr std::string_view kBegin = "'''exec' ";
  constexpr std::string_view kEnd = " \"$0\" \"$@\"";
  if (!line.starts_with(kBegin) || !line.ends_with(kEnd)) {
    return {};
  }
  const std::string quoted = line.substr(kBegin.size(), line.size() - kBegin.size() - kEnd.size());
  std::string plain = quoted;
  std::erase_if(plain, [](char c) { return c == '\'' || c == '"'; });
  return {.argv = {plain}, .start = {shell, "-c", "exec " + quoted + " \"$@\"", script}};
}

// By the first line of a script; empty: it has none.
Interpreted ByFirstLine(const std::string& script, const fs::path& directory) {
  const Result<UniqueFd> file = OpenOrdinary(directory / script, O_RDONLY, 0);
  std::string text(kMostOfFirstLines, '\0');
  const ssize_t got = file ? ::pread(file->get(), text.data(), text.size(), 0) : -1;
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  std::istringstream lines(text);
  std::string first;
  std::string second;
  if (!std::getline(lines, first) || !first.starts_with("#!")) {
    return {};
  }
  std::getline(lines, second);
  std::istringstream in(first.substr(2));
  std::string program;
  std::string argument;
  in >> program >> std::ws;
  std::getline(in, argument);  // All of it is one argument, as the kernel has it.
  argument.erase(argument.find_last_not_of(" \t\r") + 1);
  Interpreted found{.argv = {program}, .start = {program}};
  if (IsCalled(program, "env")) {
    std::istringstream words(argument);
    found = BehindEnv(program, {std::istream_iterator<std::string>(words), {}});
  } else if (IsCalled(program, "sh")) {
    found = BehindShell(program, script, second);
  } else if (!argument.empty()) {
    found.argv.push_back(argument);
  }
  if (!found.argv.empty()) {
    found.argv.push_back(script);
  }
  return found;
}

// As the interpreter will find the command. The error: it is not Python.
Result<Interpreted> FindPythonIn(const Command& command, const fs::path& directory) {
  const std::string& name = command.argv.at(0);
  if (IsPython(name)) {
    return Interpreted{command.argv, {name}};
  }
  const std::vector<std::string> rest(command.argv.begin() + 1, command.argv.end());
  Interpreted found;
  if (IsCalled(name, "env")) {
    found = BehindEnv(name, rest);
  } else {
    found = ByFirstLine(command.file.native(), directory);
    found.argv.insert(found.argv.end(), rest.begin(), rest.end());
  }
  if (found.start.empty() || found.argv.empty() || !IsPython(found.argv[0])) {
    return Error{ErrorKind::kInvalid,
                 "--preload is for Python programs, and '" + name + "' is not Python"};
  }
  return found;
}

Result<UniqueFd> HookFile() {
  const auto size = static_cast<std::size_t>(ddprun_python_hook_end - ddprun_python_hook_begin);
  ASSIGN_OR_RETURN(const UniqueFd made,
                   MemoryFile("ddprun-hook", {ddprun_python_hook_begin, size}));
  UniqueFd file(::fcntl(made.get(), F_DUPFD_CLOEXEC, kAboveBlocks));
  if (!file) {
    return SystemError("make", "a memory file for Python", errno);
  }
  return file;
}

fs::path DirectoryOf(const WorkerSpec& worker) {
  std::error_code ignored;
  return worker.directory.empty() ? fs::current_path(ignored) : worker.directory;
}

// A place in Python's path.
std::string EntryOf(const UniqueFd& file) {
  return "/proc/self/fd/" + std::to_string(file.get());
}

// PYTHONPATH with the hook before all that it has. An empty place would be the working directory.
std::string PathWith(const std::string& entry, const WorkerSpec& worker) {
  const auto before = worker.environment.find("PYTHONPATH");
  const bool has = before != worker.environment.end() && !before->second.empty();
  return has ? entry + ":" + before->second : entry;
}

}  // namespace

Result<PythonProgram> ReadPythonCommand(const Command& command, const fs::path& directory) {
  ASSIGN_OR_RETURN(const Interpreted found, FindPythonIn(command, directory));
  const std::vector<std::string>& argv = found.argv;
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
      return PythonProgram{
          argv, found.start, "file", (directory / word).native(), script.parent_path().native(),
          i,    "",          i + 1};
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
      const std::size_t own = i + (last ? 2 : 1);
      if (option == 'm') {
        return PythonProgram{argv, found.start, "module", value, directory.native(),
                             i,    before,      own};
      }
      if (option == 'c') {  // ddprun's own --run-path: its program is a file.
        const bool runs_file = value.find("runpy.run_path(") != std::string::npos;
        return i + 2 < argv.size() && last && runs_file
                   ? PythonProgram{argv, found.start, "file", argv[i + 2], "", i, before, i + 3}
                   : PythonProgram{argv, found.start, "text", value, "", i, before, own};
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

Result<PythonHook> AddPythonHook(const PythonHookRequest& request, const WorkerSpec& worker) {
  ASSIGN_OR_RETURN(const PythonProgram program,
                   ReadPythonCommand(worker.command, DirectoryOf(worker)));
  if (const auto safe = worker.environment.find("PYTHONSAFEPATH");
      safe != worker.environment.end() && !safe->second.empty()) {
    return Cannot("PYTHONSAFEPATH");
  }
  PythonHook hook{.spec = worker};
  ASSIGN_OR_RETURN(hook.file, HookFile());
  hook.spec.kept.push_back(hook.file.get());
  const std::string entry = EntryOf(hook.file);
  const auto before = worker.environment.find("PYTHONPATH");
  const bool had = before != worker.environment.end();
  const auto& argv = program.argv;
  const auto begin = argv.begin() + static_cast<std::ptrdiff_t>(program.at);
  nlohmann::json told = {{"file", hook.file.get()},
                         {"agent", ::getpid()},
                         {"entry", entry},
                         {"preload", request.preload},
                         {"background", request.background},
                         {"workers", request.own},
                         {"kind", program.kind},
                         {"program", program.name},
                         {"path", program.path},
                         {"probe", false},
                         {"pythonpath", nullptr},
                         {"keep", request.keep}};
  hook.spec.outlives = request.keep;
  told["arguments"] = std::vector<std::string>(argv.begin() + 1, argv.end());
  told["tail"] = std::vector<std::string>(begin, argv.end());
  if (had) {
    told["pythonpath"] = before->second;
  }
  // Arguments that are not UTF-8 are changed: the hook then finds other ones than its own, and
  // leaves.
  const auto text = [&] {
    return told.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  };
  hook.spec.environment["PYTHONPATH"] = PathWith(entry, worker);
  // pyarrow's allocator starts a thread otherwise. Workers have the variable as it was given.
  std::string& allocator = hook.spec.environment["JE_ARROW_MALLOC_CONF"];
  if (allocator.find("background_thread") == std::string::npos) {
    allocator += allocator.empty() ? "background_thread:false" : ",background_thread:false";
  }
  hook.probe = hook.spec;
  hook.spec.environment[kHookVariable] = text();
  told["probe"] = true;
  hook.probe.environment[kHookVariable] = text();
  std::vector<std::string> asked = program.start;
  asked.insert(asked.end(), argv.begin() + 1, begin);
  asked.insert(asked.end(), {program.options.empty() ? "-c" : program.options + "c", ""});
  const bool itself = asked[0] == worker.command.argv[0];  // Not a script's interpreter.
  hook.probe.command.file = itself ? worker.command.file : fs::path(asked[0]);
  hook.probe.command.argv = std::move(asked);
  return hook;
}

void AddWatchHook(WorkerSpec& worker) {
  const auto off = worker.environment.find("DDPRUN_WATCH");
  if ((off != worker.environment.end() && off->second == "0") ||
      !ReadPythonCommand(worker.command, DirectoryOf(worker))) {
    return;
  }
  static const Result<UniqueFd> file = HookFile();
  if (file) {
    worker.kept.push_back(file->get());
    worker.first_variable = "PYTHONPATH=" + PathWith(EntryOf(*file), worker);
  }
}

}  // namespace ddprun

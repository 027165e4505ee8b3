// The description of one worker process: program, arguments, environment, output. No process is
// started here.
//
//   FindCommand(request)              once per agent: which file is run, and through what
//   MakeWorkerSpec(command, env, ...) once per worker and generation
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/workers/numa_binding.h"
#include "common/files.h"
#include "common/result.h"
#include "proto/worker_env.h"

namespace ddprun {

// The user's request, as on the command line.
struct ProgramRequest {
  std::string program;
  std::vector<std::string> args;
  bool module = false;     // python -m PROGRAM
  bool no_python = false;  // Run the program itself even when it is called *.py.
  bool run_path = false;   // Python runs the program as a script, whatever it is called.
  // The first argument is --local-rank=<n>, as torch.distributed.launch passes it.
  bool pass_local_rank = false;
  // Where the name is that ddprun was called by: a link in a virtual environment, perhaps.
  std::filesystem::path called_from;
};

// The arguments of execve; argv[0] is included.
struct Command {
  std::filesystem::path file;
  std::vector<std::string> argv;
  std::string why;  // For people: the reason for this way to run the program.
};

// A name with a slash is itself. Any other is looked for in PATH, then beside the running
// executable; ddprun's own programs, and all where that is in a virtual or conda environment, first
// there. The error names what was searched.
Result<std::filesystem::path> FindProgram(const std::string& name, const GetEnv& get_env);

// Where Python is looked for, in this order: PYTHON_EXEC; beside the running executable or the link
// it was called by, if that is in a virtual or conda environment; PATH, as the user's shell does.
// VIRTUAL_ENV and CONDA_PREFIX are ignored: they may be left over from another shell.
struct Interpreter {
  std::string name;  // argv[0]
  std::filesystem::path file;
  std::string why;  // "PYTHON_EXEC"
};
Result<Interpreter> FindPython(const GetEnv& get_env, const std::filesystem::path& called_from);

// *.py, modules and run_path run with `python -u`; all else directly.
Result<Command> FindCommand(const ProgramRequest& request, const GetEnv& get_env);

// Where one stream of a worker goes. Both: tee. None: /dev/null.
struct StreamPlan {
  bool console = true;
  std::filesystem::path file;  // Empty: no file. Written by the worker itself unless it is a tee.
  bool copied = false;         // The file changes nothing about the console; no tee's prefix.
  std::string prefix;          // Before every line on the console.
  // Equal lines of several ranks are said once there (line_merger); nullopt: each rank's.
  struct Merge {
    std::uint32_t rank = 0;
    std::uint32_t shown = 1;  // Ranks of this node whose lines are shown.
    std::uint32_t world = 1;  // Ranks of the world.
  };
  std::optional<Merge> merge;
  bool read = false;  // The agent is to see it, wherever it goes.
  bool rows = true;   // On a terminal its unfinished line may be drawn (terminal_rows).
  // Console lines with any of these in them also go to this file, which the workers share.
  std::vector<std::string> filters;
  std::filesystem::path filtered_file;
};

// Memory that the last worker of this local rank left (proto/memory_block.h). Shared by its keeper
// it and starts under way.
struct MemoryBlock {
  std::string name;
  std::shared_ptr<const UniqueFd> file;  // At kAboveBlocks or above.
};

struct WorkerSpec {
  std::uint32_t local_rank = 0;
  Command command;
  std::map<std::string, std::string> environment;  // All of it.
  // NAME=value, given before all others, even if one of them has the same name; empty: nothing.
  std::string first_variable;
  std::filesystem::path directory;  // Empty: the agent's own.
  CpuSet cpus;                      // Empty: the agent's own.
  StreamPlan out;
  StreamPlan err;
  bool terminal = false;  // Its three streams are the agent's own, whoever else runs here.
  // Not a worker: in the agent's own session, a process group of its own, and not swept with what
  // workers leave.
  bool helper = false;
  // It may be left alive when this process ends. A helper (kept_preload.h) then stays in the
  // process group: the leader of a group could not begin a session later.
  bool outlives = false;
  std::vector<int> kept;  // Descriptors that it gets besides its three, with these numbers.
  // And from kFirstBlock up, at most kMostBlocks; LISTEN_PID goes with LISTEN_FDS.
  std::vector<MemoryBlock> blocks;
};

// How the workers' output is wanted, torchrun's words: bit 1 stdout, bit 2 stderr.
struct OutputRequest {
  std::filesystem::path directory;  // Of this generation; empty: none; /dev/null: redirects only.
  // 1 stdout, 2 stderr, 3 both, for every local rank without an entry below.
  std::uint32_t redirects = 0;
  std::uint32_t tee = 0;
  std::map<std::uint32_t, std::uint32_t> redirects_of;  // Local rank -> bits.
  std::map<std::uint32_t, std::uint32_t> tee_of;
  bool copy = false;  // Without tee and redirects: all streams to files, the console unchanged.
  std::optional<std::vector<std::uint32_t>> console_ranks;  // Others are not shown.
  // Before every teed console line; see ExpandTemplate. Knows role_name, local_rank, rank and
  // hostname.
  std::string prefix_template = "[${role_name}${local_rank}]:";
  std::string hostname;
  std::uint32_t merge = 0;   // Equal lines of so many ranks here are shown once; 0: not.
  bool prefix_all = false;   // Before lines that are not teed too.
  bool read = false;         // See StreamPlan.
  bool read_errors = false;  // Stderr alone: whether a restart may help is judged by its end.
  std::vector<std::string> stdout_filters;  // Of teed streams, see StreamPlan.
  std::vector<std::string> stderr_filters;
};

// Files are <directory>/<local rank>/{stdout,stderr}.log.
WorkerSpec MakeWorkerSpec(const Command& command, const WorkerEnv& env,
                          const std::map<std::string, std::string>& agent_environment,
                          const OutputRequest& output);

// The variables of a worker's memory blocks; ddprun's own environment may have had the same names.
inline constexpr const char* kBlockVariables[] = {"LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID",
                                                  "LISTEN_PIDFDID"};
void HandOn(std::vector<MemoryBlock> blocks, WorkerSpec& spec);

// The calling process's environment as a map.
std::map<std::string, std::string> ProcessEnvironment();

// OMP_NUM_THREADS for each of `workers` on `allowed_cpus`: none when the user set it or with one
// worker.
std::optional<std::size_t> OmpThreads(const std::map<std::string, std::string>& environment,
                                      std::size_t workers, std::size_t allowed_cpus);

// "$$" is one dollar, as in Python's string.Template, and so for torchrun; or it is that only
// before a name that has a value, so that any text without one stays as it is.
enum class DollarPairs { kAreOne, kAreOneBeforeNames };

// "${name}" and "$name" with the value of the name; names without a value stay.
std::string ExpandTemplate(const std::string& text,
                           const std::map<std::string, std::string>& values, DollarPairs pairs);

// The same with what --log-line-prefix-template and --env know of a worker.
std::string ExpandMacros(const std::string& text, const WorkerEnv& env, const std::string& hostname,
                         DollarPairs pairs);

// CPUs this process may run on.
CpuSet AllowedCpuSet();
// How many of them it may use at a time, by its cgroup's quota; at least 1.
std::size_t AllowedCpus();

}  // namespace ddprun

#include "agent/workers/worker_spec.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/cgroup.h"
#include "common/slug.h"
#include "common/text.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kStdoutBit = 1;
constexpr std::uint32_t kStderrBit = 2;

// As `python PROGRAM ARGS`, but for sys.path, which runpy leaves alone.
constexpr const char* kRunPath =
    "import runpy, sys; sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')";

bool IsProgram(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::vector<fs::path> SearchPath(const GetEnv& get_env) {
  std::vector<fs::path> directories;
  const std::string path = get_env("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (const std::string& entry : Split(path + ":", ':')) {
    directories.emplace_back(entry.empty() ? "." : entry);
  }
  return directories;
}

std::uint32_t BitsFor(std::uint32_t local_rank, std::uint32_t all,
                      const std::map<std::uint32_t, std::uint32_t>& single) {
  const auto found = single.find(local_rank);
  return found == single.end() ? all : found->second;
}

StreamPlan PlanStream(const OutputRequest& output, const WorkerEnv& env, std::uint32_t bit) {
  const bool is_out = bit == kStdoutBit;
  const bool files = !output.directory.empty();
  const bool discards = output.directory == "/dev/null";
  const bool tee = files && (BitsFor(env.local_rank, output.tee, output.tee_of) & bit) != 0;
  const bool redirect =
      files && (BitsFor(env.local_rank, output.redirects, output.redirects_of) & bit) != 0;
  const auto& shown = output.console_ranks;
  const bool wanted =
      !shown || std::find(shown->begin(), shown->end(), env.local_rank) != shown->end();
  StreamPlan plan{.console = wanted && (tee || !redirect),
                  .copied = output.copy && files && !discards,
                  .read = output.read || (output.read_errors && !is_out)};
  if (output.merge > 0 && plan.console) {
    const std::size_t shown_ranks = shown ? shown->size() : output.merge;
    plan.merge = {.rank = env.rank,
                  .shown = static_cast<std::uint32_t>(shown_ranks),
                  .world = env.world_size};
  } else if (tee || output.prefix_all) {
    plan.prefix = ExpandMacros(output.prefix_template, env, output.hostname, DollarPairs::kAreOne);
  }
  if (discards) {
    plan.file = redirect && !tee ? output.directory : fs::path();
    return plan;
  }
  if (tee || redirect || plan.copied) {
    plan.file =
        output.directory / std::to_string(env.local_rank) / (is_out ? "stdout.log" : "stderr.log");
  }
  if (tee) {
    plan.filters = is_out ? output.stdout_filters : output.stderr_filters;
    plan.filtered_file =
        output.directory / (is_out ? "filtered_stdout.log" : "filtered_stderr.log");
  }
  return plan;
}

// Where the running executable is; empty: not known.
fs::path OwnFolder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

// The programs of a virtual or conda environment belong together, whatever PATH says.
bool IsOfAnEnvironment(const fs::path& folder) {
  std::error_code ignored;
  return !folder.empty() && (fs::exists(folder.parent_path() / "pyvenv.cfg", ignored) ||
                             fs::exists(folder.parent_path() / "conda-meta", ignored));
}

}  // namespace

Result<fs::path> FindProgram(const std::string& name, const GetEnv& get_env) {
  if (name.empty()) {
    return Error{ErrorKind::kInvalid, "no program given"};
  }
  if (name.find('/') != std::string::npos) {
    if (::access(name.c_str(), F_OK) != 0) {
      return Error{ErrorKind::kNotFound,
                   "program '" + name + "' does not exist [program-not-found]"};
    }
    if (!IsProgram(name)) {
      std::error_code ignored;
      return Error{ErrorKind::kSystem,
                   "program '" + name +
                       (fs::is_directory(name, ignored) ? "' is a directory"
                                                        : "' is not executable (chmod +x?)") +
                       ". A program in Python is started as: python3 " + name +
                       " [program-not-found]"};
    }
    return fs::path(name);
  }
  std::vector<fs::path> directories = SearchPath(get_env);
  const fs::path own = OwnFolder();
  if (!own.empty()) {
    // ddprun-train and the like are of this very build; else what the user's shell would find is
    // meant, and what lies beside ddprun comes last.
    const bool first = name.starts_with("ddprun") || IsOfAnEnvironment(own);
    directories.insert(first ? directories.begin() : directories.end(), own);
  }
  std::string searched = own.empty() ? "" : own.native() + " and ";
  for (const fs::path& directory : directories) {
    if (IsProgram(directory / name)) {
      return directory / name;
    }
  }
  searched += "PATH (" + get_env("PATH").value_or("not set") + ")";
  std::string message = "program '" + name + "' was not found in " + searched;
  if (IsProgram(name)) {
    message += "; this directory has a file of that name: use './" + name + "'";
  } else if (name == "-" || ::access(name.c_str(), F_OK) == 0) {
    message += ". A program in Python is started as: python3 " + name;
  }
  return Error{ErrorKind::kNotFound, message + " [program-not-found]"};
}

Result<Interpreter> FindPython(const GetEnv& get_env, const fs::path& called_from) {
  if (const auto given = get_env("PYTHON_EXEC"); given && !given->empty()) {
    Result<fs::path> file = FindProgram(*given, get_env);
    if (!file) {
      return Error{file.error().kind, Continue(file.error().message, " (PYTHON_EXEC names it)")};
    }
    return Interpreter{*given, *file, "PYTHON_EXEC names it"};
  }
  std::vector<std::pair<fs::path, std::string>> places;
  if (const fs::path own = OwnFolder(); IsOfAnEnvironment(own)) {
    places.emplace_back(own, "ddprun belongs to its environment");
  }
  if (IsOfAnEnvironment(called_from)) {
    places.emplace_back(called_from,
                        "the link by which ddprun was started belongs to its environment");
  }
  for (fs::path& directory : SearchPath(get_env)) {
    places.emplace_back(std::move(directory), "it is the first in PATH");
  }
  for (const auto& [directory, why] : places) {
    for (const char* name : {"python3", "python"}) {
      if (const fs::path file = directory / name; IsProgram(file)) {
        // By its path: Python finds its virtual environment from argv[0].
        return Interpreter{file.native(), file, why};
      }
    }
  }
  return Error{ErrorKind::kNotFound, "no Python was found in PATH (" +
                                         get_env("PATH").value_or("not set") +
                                         "). Set PYTHON_EXEC to one"};
}

Result<Command> FindCommand(const ProgramRequest& request, const GetEnv& get_env) {
  Command command;
  const std::vector<std::string> local_rank =
      request.pass_local_rank ? std::vector<std::string>{"--local-rank=${local_rank}"}
                              : std::vector<std::string>{};
  const bool script = fs::path(request.program).extension() == ".py" && !request.no_python;
  if (request.module || script || request.run_path) {
    if (!request.module && ::access(request.program.c_str(), R_OK) != 0) {
      return SystemError("read the script", request.program, errno);
    }
    ASSIGN_OR_RETURN(const Interpreter python, FindPython(get_env, request.called_from));
    command.file = python.file;
    command.argv = {python.name, "-u"};
    command.why = std::string(request.module     ? "--module"
                              : request.run_path ? "--run-path"
                                                 : "*.py") +
                  " runs under Python, unbuffered. This Python was chosen because " + python.why;
    if (request.module) {
      command.argv.push_back("-m");
    } else if (request.run_path) {
      command.argv.insert(command.argv.end(), {"-c", kRunPath});
    }
    command.argv.push_back(request.program);
  } else {
    ASSIGN_OR_RETURN(command.file, FindProgram(request.program, get_env));
    command.argv = {request.program};
    command.why = request.no_python ? "executed itself: --no-python" : "executed itself: not *.py";
  }
  command.argv.insert(command.argv.end(), local_rank.begin(), local_rank.end());
  command.argv.insert(command.argv.end(), request.args.begin(), request.args.end());
  return command;
}

WorkerSpec MakeWorkerSpec(const Command& command, const WorkerEnv& env,
                          const std::map<std::string, std::string>& agent_environment,
                          const OutputRequest& output) {
  WorkerSpec spec{.local_rank = env.local_rank, .command = command};
  const std::size_t first_user_argument = 1;
  for (std::size_t i = first_user_argument; i < spec.command.argv.size(); ++i) {
    ReplaceAll(spec.command.argv[i], "${local_rank}", std::to_string(env.local_rank));
  }
  spec.environment = agent_environment;
  for (const auto& [name, value] : ToEnvironment(env)) {
    spec.environment[name] = value;
  }
  spec.environment.emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  spec.out = PlanStream(output, env, kStdoutBit);
  spec.err = PlanStream(output, env, kStderrBit);
  return spec;
}

void HandOn(std::vector<MemoryBlock> blocks, WorkerSpec& spec) {
  for (const char* name : kBlockVariables) {
    spec.environment.erase(name);
  }
  if (!blocks.empty()) {
    spec.environment["LISTEN_FDS"] = std::to_string(blocks.size());
    std::string& names = spec.environment["LISTEN_FDNAMES"];
    for (const MemoryBlock& block : blocks) {
      names += (names.empty() ? "" : ":") + block.name;
    }
  }
  spec.blocks = std::move(blocks);
}

std::map<std::string, std::string> ProcessEnvironment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view assignment = *entry;
    const std::size_t equals = assignment.find('=');
    if (equals != std::string_view::npos) {
      environment.emplace(assignment.substr(0, equals), assignment.substr(equals + 1));
    }
  }
  return environment;
}

std::optional<std::size_t> OmpThreads(const std::map<std::string, std::string>& environment,
                                      std::size_t workers, std::size_t allowed_cpus) {
  if (workers <= 1 || environment.contains("OMP_NUM_THREADS")) {
    return std::nullopt;
  }
  return std::max<std::size_t>(1, allowed_cpus / workers);
}

std::string ExpandMacros(const std::string& text, const WorkerEnv& env, const std::string& hostname,
                         DollarPairs pairs) {
  return ExpandTemplate(text,
                        {{"local_rank", std::to_string(env.local_rank)},
                         {"rank", std::to_string(env.rank)},
                         {"role_name", env.role_name},
                         {"hostname", hostname}},
                        pairs);
}

std::string ExpandTemplate(const std::string& text,
                           const std::map<std::string, std::string>& values, DollarPairs pairs) {
  const auto in_name = [](char c) { return IsLetterOrDigit(c) || c == '_'; };
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '$') {
      out += text[i++];
      continue;
    }
    const std::size_t after = std::min(text.find_first_not_of('$', i), text.size());
    const std::size_t dollars = after - i;
    const bool braced = text.compare(after, 1, "{") == 0;
    const std::size_t begin = after + (braced ? 1 : 0);
    std::size_t end = begin;
    while (end < text.size() && in_name(text[end])) {
      ++end;
    }
    const auto value = values.find(text.substr(begin, end - begin));
    const bool known = value != values.end() && (!braced || text.compare(end, 1, "}") == 0);
    const bool replaced = known && dollars % 2 == 1;  // All but the last one are pairs.
    const std::size_t left_out = known || pairs == DollarPairs::kAreOne ? dollars / 2 : 0;
    out.append(dollars - left_out - (replaced ? 1 : 0), '$');
    out += replaced ? value->second : "";
    i = replaced ? end + (braced ? 1 : 0) : after;
  }
  return out;
}

CpuSet AllowedCpuSet() {
  CpuSet allowed;
  // The kernel refuses a set smaller than its own, so it grows until it fits.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* const set = CPU_ALLOC(cpus);
    const std::size_t size = CPU_ALLOC_SIZE(cpus);
    const bool known = set != nullptr && ::sched_getaffinity(0, size, set) == 0;
    for (int cpu = 0; known && cpu < cpus; ++cpu) {
      if (CPU_ISSET_S(cpu, size, set)) {
        allowed.insert(cpu);
      }
    }
    CPU_FREE(set);
    if (known) {
      break;
    }
  }
  return allowed;
}

std::size_t AllowedCpus() {
  return WithinCpuQuota(AllowedCpuSet().size());
}

}  // namespace ddprun

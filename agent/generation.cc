#include "agent/generation.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/watch/life_locks.h"
#include "agent/workers/python_hook.h"
#include "agent/workers/worker_gpu.h"
#include "common/files.h"
#include "common/log.h"

namespace ddprun {
namespace {

WorkerEnv EnvOf(const GenerationPlan& plan, std::uint32_t local) {
  const AgentConfig& core = plan.options->core;
  const Placement& placement = plan.placement;
  WorkerEnv env;
  env.rank = placement.first_rank + local;
  env.local_rank = core.first_local_rank + local;
  env.world_size = placement.world_size;
  env.local_world_size = std::max(core.workers, plan.options->local_world_size);
  env.group_rank = placement.group_rank;
  env.group_world_size = placement.group_size;
  env.role_name = core.role;
  env.role_rank = placement.role_first_rank + local;
  env.role_world_size = placement.role_world_size;
  env.master = placement.store;
  env.restart_count = placement.restarts_used;
  env.max_restarts = core.spec.max_restarts;
  env.run_id = core.run_id;
  env.error_file =
      plan.options->discard_logs
          ? ""
          : WorkersFile(plan.attempt, local, kErrorFile, plan.options->directory_stays).native();
  env.term = placement.term;
  env.generation = placement.generation;
  env.world_id = placement.world_id;
  env.notify_socket = plan.sockets.paths()[local];
  env.life_lock = LifeLockOf(plan.life_locks, local);
  return env;
}

OutputRequest OutputOf(const AgentOptions& options, const std::filesystem::path& directory) {
  OutputRequest output = options.output;
  output.read = options.progress_from != nullptr || options.of_daemon;
  // On a terminal the agent's copy of stderr would come after what stdout says next.
  output.read_errors = options.core.spec.max_restarts > 0 && ::isatty(STDERR_FILENO) != 1;
  output.directory = options.discard_logs ? "/dev/null"
                     : options.keep_logs  ? directory
                                          : std::filesystem::path();
  return output;
}

// Under a scheduler most nodes have no terminal, and only here is it known which one is asked.
void Attach(WorkerSpec& spec, std::uint32_t rank) {
  if (::isatty(STDIN_FILENO) != 1) {
    Log(LogLevel::kWarning,
        "rank " + std::to_string(rank) +
            " cannot have the terminal (--attach-rank): ddprun has none on this node. Its output "
            "goes where that of the other ranks goes [no-terminal]");
    return;
  }
  spec.terminal = true;
  spec.out = spec.err = StreamPlan{};
}

}  // namespace

std::filesystem::path WorkersFile(const std::filesystem::path& attempt, std::uint32_t local_rank,
                                  const std::string& name, bool stays) {
  const std::string rank = std::to_string(local_rank);
  return stays ? attempt / rank / name : attempt / (rank + "." + name);
}

std::optional<WarmPlan> PlanWarmStart(const AgentOptions& options,
                                      const std::map<std::string, std::string>& environment) {
  if (!options.may_preload) {
    return std::nullopt;
  }
  const AgentConfig& core = options.core;
  WorkerEnv env;
  env.local_rank = core.first_local_rank;
  env.local_world_size = std::max(core.workers, options.local_world_size);
  WarmPlan plan{.spec = MakeWorkerSpec(options.command, env, environment,
                                       OutputOf(options, options.run_directory / "preload")),
                .own = NamesOfWorkers(options.virtual_local_rank),
                .inherit = core.workers == 1,
                .preload = options.preload,
                .automatic = options.preload_auto && !options.preload.empty(),
                .keep = options.keep,
                .given = options.given};
  for (const auto& [name, value] : options.variables) {
    if (value.find('$') != std::string::npos) {
      plan.own.insert(name);
    }
  }
  for (const std::string& name : plan.own) {
    plan.spec.environment.erase(name);
  }
  for (StreamPlan* const stream : {&plan.spec.out, &plan.spec.err}) {
    stream->prefix = stream->prefix.empty() ? "" : "[preload]:";
  }
  return plan;
}

Result<std::vector<WorkerSpec>> MakeWorkers(GenerationPlan& plan, const BeginStep& begin) {
  const AgentOptions& options = *plan.options;
  RETURN_IF_ERROR(begin("making '" + plan.notify_directory.native() + "'"));
  ASSIGN_OR_RETURN(plan.sockets, NotifyFiles::Make(plan.notify_directory, options.core.workers));
  const OutputRequest output = OutputOf(options, plan.attempt);
  std::vector<WorkerSpec> specs;
  for (std::uint32_t local = 0; local < options.core.workers; ++local) {
    if (local == 0 || options.directory_stays) {
      const std::filesystem::path own =
          WorkersFile(plan.attempt, local, kErrorFile, options.directory_stays).parent_path();
      RETURN_IF_ERROR(begin("making '" + own.native() + "'"));
      RETURN_IF_ERROR(MakeDirectories(own, 0700));
    }
    const WorkerEnv env = EnvOf(plan, local);
    WorkerSpec spec = MakeWorkerSpec(options.command, env, plan.environment, output);
    for (const auto& [name, value] : options.variables) {
      spec.environment[name] =
          ExpandMacros(value, env, output.hostname, DollarPairs::kAreOneBeforeNames);
    }
    spec.local_rank = local;  // Of this agent.
    if (options.virtual_local_rank) {
      ASSIGN_OR_RETURN(const auto variables, AloneOnItsGpu(local, plan.environment));
      for (const auto& [name, value] : variables) {
        spec.environment[name] = value;
      }
    }
    // Drawn rows would go through what is typed at the attached worker.
    spec.out.rows = spec.err.rows = !options.attached;
    if (options.attached == plan.placement.first_rank + local) {
      Attach(spec, *options.attached);
    }
    HandOn(plan.memory[local], spec);
    spec.cpus = local < options.cpus.size() ? options.cpus[local] : CpuSet{};
    if (options.core.hang_timeout > Duration{0} || options.core.start_timeout > Duration{0}) {
      AddWatchHook(spec);
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace ddprun

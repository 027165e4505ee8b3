#include "launcher/plan.h"

#include <algorithm>

#include "agent/host/interfaces.h"
#include "agent/workers/worker_gpu.h"
#include "common/text.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/host_places.h"
#include "launcher/command_line/quoted.h"
#include "launcher/scrub.h"

namespace ddprun {
namespace {

constexpr std::size_t kLabel = 14;
constexpr std::size_t kVariable = 26;

std::string Padded(const std::string& label, std::size_t width) {
  return "  " + label + std::string(label.size() < width ? width - label.size() : 1, ' ');
}

std::string Line(const std::string& label, const std::string& text) {
  return Padded(label, kLabel) + text + "\n";
}

std::string Variable(const std::string& name, const std::string& text) {
  return Padded(name, kVariable) + text + "\n";
}

bool IsGiven(const LaunchConfig& config, const std::string& name) {
  const std::string value = ValueOf(config.settings, name).value_or("");
  return IsSet(config, name) && !value.empty() && value != "false";
}

std::string Program(const Command& command) {
  std::error_code ignored;
  return "program\n" + Line("file", command.file.native()) + Line("because", command.why) +
         Line("argv", QuotedLine(command.argv)) +
         Line("directory", std::filesystem::current_path(ignored).native());
}

std::string WhyAlone(const LaunchConfig& config) {
  return IsGiven(config, "standalone") ? "standalone because of --standalone"
                                       : "standalone because --nnodes allows only one node";
}

std::string Server(const LaunchConfig& config) {
  const std::string where = ToString(config.endpoint);
  if (config.standalone) {
    return "this process, " + std::string(config.literal_master
                                              ? "and the workers' store at " + where
                                              : "without a port: no other node can join");
  }
  const std::string rank = config.node_rank ? std::to_string(*config.node_rank) : "";
  if (config.node_rank && *config.node_rank > 0) {
    return "the node of rank 0, at " + where + "; this one is rank " + rank;
  }
  const std::optional<std::string> interface = InterfaceOfHost(config.endpoint.host);
  const std::string here = interface ? "an address of this machine (" + *interface + ")"
                                     : "not known here as an address of this machine";
  if (config.node_rank) {
    const bool given = IsGiven(config, "node-rank");
    return "this node, at " + where + ", because it is rank 0" +
           (given ? "" : " (--node-rank is not given)") + "; " + config.endpoint.host + " is " +
           here;
  }
  return "the first node that has the address " + config.endpoint.host + " and can bind port " +
         std::to_string(config.endpoint.port) + ", because no --node-rank is given; " +
         config.endpoint.host + " is " + here;
}

std::string Store(const LaunchConfig& config) {
  if (config.literal_master) {
    return ToString(config.endpoint) + ", this very address and port, because of " +
           (IsGiven(config, "master-port")     ? "--master-port"
            : IsGiven(config, "rdzv-endpoint") ? "--rdzv-backend=static"
                                               : "--master-addr");
  }
  return "a free port " +
         std::string(config.standalone && config.local_address.empty()
                         ? "of 127.0.0.1"
                         : "of the node that has group rank 0") +
         ", a new one after every restart";
}

std::string Rendezvous(const LaunchConfig& config) {
  const std::string nodes = std::to_string(config.spec.min_nodes) +
                            (config.spec.min_nodes == config.spec.max_nodes
                                 ? ""
                                 : " to " + std::to_string(config.spec.max_nodes));
  const std::string conf = "join within " + FormatDuration(config.spec.join_timeout) +
                           (config.spec.min_nodes < config.spec.max_nodes
                                ? "; " + FormatDuration(config.spec.last_call) +
                                      " for more nodes once the minimum is here"
                                : "");
  return "nodes\n" + Line("found", config.context.line) +
         Line("count", nodes + (config.standalone ? ", " + WhyAlone(config) : "")) +
         Line("run id", config.run_id.empty()
                            ? "generated at the start, because the run is standalone"
                            : config.run_id) +
         Line("server", Server(config)) + Line("store", Store(config)) +
         (config.run_dir.empty()
              ? ""
              : Line("takeover",
                     "if the server's node is lost, another node takes over by the "
                     "claims in " +
                         config.run_dir)) +
         (config.standalone ? "" : Line("patience", conf));
}

std::string Workers(const LaunchConfig& config, const Preparation& preparation) {
  std::string text = "workers\n" + Line("count", WorkerCount(config, preparation));
  const std::map<std::string, std::string> environment = ProcessEnvironment();
  for (std::uint32_t local = 0; local < config.workers; ++local) {
    std::string own = "RANK=" +
                      (config.standalone ? std::to_string(local)
                                         : "<first of this node> + " + std::to_string(local)) +
                      " LOCAL_RANK=" + std::to_string(config.virtual_local_rank ? 0 : local);
    if (config.virtual_local_rank) {
      if (const auto gpu = AloneOnItsGpu(local, environment)) {
        own += " CUDA_VISIBLE_DEVICES=" + gpu->at("CUDA_VISIBLE_DEVICES");
      }
    }
    if (config.numa != NumaMode::kNone) {
      const CpuSet& cpus = preparation.numa.cpus[local];
      own += cpus.empty() ? ", the same CPUs as ddprun" : ", CPUs " + RangesOf(cpus, ",");
    }
    text += Line("local rank " + std::to_string(local), own);
  }
  if (config.numa != NumaMode::kNone) {
    text += Line("CPUs", preparation.numa.basis);
  }
  return text;
}

std::string Environment(const LaunchConfig& config, const Preparation& preparation) {
  const std::size_t inherited = ProcessEnvironment().size() - preparation.removed.size();
  const std::string nodes = std::to_string(config.spec.max_nodes);
  std::string text = "environment of every worker: " + std::to_string(inherited) +
                     " variables inherited from ddprun, and\n";
  text += Variable("RANK, LOCAL_RANK", "as above");
  text += Variable("WORLD_SIZE", config.standalone ? std::to_string(config.workers)
                                                   : "workers of all nodes, of which " +
                                                         std::to_string(config.workers) + " here");
  text += Variable("LOCAL_WORLD_SIZE", std::to_string(config.workers));
  text += Variable("GROUP_RANK", config.standalone ? "0" : "of this node, from the rendezvous");
  text += Variable("GROUP_WORLD_SIZE", config.spec.min_nodes == config.spec.max_nodes
                                           ? nodes
                                           : "nodes that are here, at most " + nodes);
  text +=
      Variable("ROLE_NAME", "'" + config.role + "'; ROLE_RANK and ROLE_WORLD_SIZE count this role");
  text += Variable("MASTER_ADDR, MASTER_PORT", "the store's");
  text +=
      Variable("TORCHELASTIC_*",
               "RUN_ID, RESTART_COUNT, MAX_RESTARTS=" + std::to_string(config.spec.max_restarts) +
                   ", USE_AGENT_STORE=True, ERROR_FILE, SIGNALS_TO_HANDLE=" + config.signals.text);
  text += Variable("DDPRUN_*", "TERM, GENERATION, WORLD_ID, NOTIFY_SOCKET, LIFE_LOCK");
  text += Variable("LISTEN_*", "where the last worker of the local rank has left memory");
  for (const auto& [name, value] : config.variables) {
    text += Variable(name, InOneLine(value) + " (--env)");
  }
  const auto own = GetProcessEnv("OMP_NUM_THREADS");
  text += config.variables.contains("OMP_NUM_THREADS")
              ? ""
              : Variable("OMP_NUM_THREADS",
                         preparation.omp_threads
                             ? std::to_string(*preparation.omp_threads) +
                                   " because it is not set: " + std::to_string(preparation.cpus) +
                                   " CPUs for " + std::to_string(config.workers) + " workers"
                         : own ? *own + ", as it is set"
                               : "not set, because one worker may use all CPUs");
  if (!preparation.removed.empty()) {
    text += Variable("without", Joined(preparation.removed, ", ") + " (--scrub-env)");
  }
  return text;
}

std::string WhyNoLogs(const LaunchConfig& config) {
  if (IsSet(config, "redirects") || IsSet(config, "tee")) {
    return "--redirects and --tee select no stream";
  }
  if (config.log_dir.empty()) {
    return "none of --log-dir, --redirects and --tee is given";
  }
  return IsSet(config, "attach-rank")
             ? "--attach-rank gives a worker the terminal"
             : "--log-dir is the scheduler's default, and neither --redirects nor --tee is given";
}

std::string Output(const LaunchConfig& config) {
  std::string logs = config.log_dir.empty() ? FindTemporaryPlace().path.native() +
                                                  "/torchelastic_<unique>, because no --log-dir "
                                                  "is given"
                                            : config.log_dir;
  if (config.DiscardsOutput()) {
    logs = "none, because of --log-dir=/dev/null";
  } else if (!config.KeepsOutput()) {
    logs = "none, because " + WhyNoLogs(config);
  } else {
    logs += ", below it <run id>_<unique>/attempt_<n>/<local rank>";
    logs +=
        config.output.copy ? "; all output, because neither --redirects nor --tee is given" : "";
  }
  const bool as_it_is = config.workers == 1 && (!config.KeepsOutput() || config.output.copy) &&
                        !config.output.prefix_all && !config.merge_output;
  return "output\n" + Line("log files", logs) +
         Line("console",
              as_it_is ? config.output.copy
                             ? "the worker has ddprun's own stdin; its output passes through ddprun"
                             : "the worker has ddprun's own stdin, stdout and stderr"
                       : "whole lines of all workers, in between each other" +
                             std::string(config.merge_output ? ", equal ones once" : ""));
}

std::string EndingLines(const LaunchConfig& config) {
  return "when something fails\n" +
         Line("restarts", "at most " + std::to_string(config.spec.max_restarts) +
                              " after failures of workers, counted over all nodes") +
         Line("to stop", config.signals.text +
                             " are passed on to the workers, SIGKILL follows after " +
                             FormatDuration(config.spec.shutdown_timeout));
}

std::string Settings(const LaunchConfig& config) {
  std::size_t name_width = 0;
  std::size_t value_width = 0;
  std::vector<Setting> shown = config.settings;
  const std::size_t defaults =
      config.verbose
          ? 0
          : std::erase_if(shown, [](const Setting& setting) { return setting.origin == kDefault; });
  for (const Setting& setting : shown) {
    name_width = std::max(name_width, setting.name.size());
    value_width = std::max(value_width, std::min<std::size_t>(setting.value.size() + 2, 32));
  }
  std::string text =
      "settings (command line before DDPRUN_* before PET_* before file before default)\n";
  for (const Setting& setting : shown) {
    const std::string value = IsSecret(setting.name) ? "***" : Quoted(setting.value);
    text += "  --" + setting.name + std::string(name_width + 2 - setting.name.size(), ' ') + value +
            std::string(value.size() < value_width ? value_width - value.size() : 0, ' ') + "  " +
            setting.origin + "\n";
  }
  text += defaults == 0 ? "" : "  " + std::to_string(defaults) + " defaults, which -v shows\n";
  return text;
}

}  // namespace

std::string WorkerCount(const LaunchConfig& config, const Preparation& preparation) {
  const std::string asked = ValueOf(config.settings, "nproc-per-node").value_or("");
  const std::string count = std::to_string(config.workers) + " on this node";
  if (const GpusCounted gpus = CountGpus(); asked == "gpu" || (asked == "auto" && gpus.count > 0)) {
    return count + ": one per visible GPU, which are " + gpus.maker +
           " (--nproc-per-node=" + asked + ")";
  }
  if (asked == "cpu" || asked == "auto") {
    return count + ": one per allowed CPU, of which there are " + std::to_string(preparation.cpus) +
           (asked == "auto" ? ", because no GPU is visible (--nproc-per-node=auto)"
                            : " (--nproc-per-node=cpu)");
  }
  return count;
}

std::string DescribePlan(const LaunchConfig& config, const Preparation& preparation) {
  std::string text =
      "ddprun " DDPRUN_VERSION ": what would be done (--dry-run: nothing is started)\n";
  for (const std::string& section :
       {Program(preparation.command), Rendezvous(config), Workers(config, preparation),
        Environment(config, preparation), Output(config), EndingLines(config), Settings(config)}) {
    text += "\n" + section;
  }
  return text;
}

}  // namespace ddprun

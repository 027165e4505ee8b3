#include "launcher/command_line/raw_flags.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>

#include "common/text.h"
#include "launcher/command_line/problems.h"
#include "proto/worker_env.h"

namespace ddprun {
namespace {

constexpr const char* kSsh =
    "ssh -x -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o "
    "ServerAliveCountMax=2";

Result<std::vector<std::string>> ParseAgent(const std::string& text) {
  std::vector<std::string> words = Split(text, ' ');
  std::erase(words, "");
  return words;
}

Result<std::string> ParseBackend(const std::string& text) {
  if (text != "ddprun" && text != "c10d" && text != "static") {
    return Error{ErrorKind::kInvalid,
                 "--rdzv-backend='" + text +
                     "' is not supported: leave the flag out, or set c10d or static. ddprun has "
                     "its own server and needs neither etcd nor a plug-in"};
  }
  return text;
}

Result<std::string> ParseRunName(const std::string& text) {
  return IsRunName(text)
             ? Result<std::string>(text)
             : Invalid("--rdzv-id must be 1 to 128 printable characters without spaces and '/'",
                       text);
}

Result<std::string> ParseRole(const std::string& text) {
  return text.size() <= 128 ? Result<std::string>(text)
                            : Invalid("--role must be at most 128 characters", text);
}

Result<int> ParseGiveUpCode(const std::string& text) {
  const std::optional<std::uint32_t> code = NotNegative(text);
  constexpr std::array<std::uint32_t, 9> kTaken = {0, 2, 69, 70, 75, 129, 130, 131, 143};
  if (!code || *code > 255 || std::ranges::count(kTaken, *code) > 0) {
    return Invalid(
        "--give-up-code must be from 1 to 255, and none of 2, 69, 70, 75, 129, 130, 131 and 143, "
        "which mean something else",
        text);
  }
  return static_cast<int>(*code);
}

Result<std::shared_ptr<const ProgressForms>> ParseProgressForms(const std::string& text) {
  auto forms = ProgressForms::Make(text);
  if (!forms) {
    return Error{ErrorKind::kInvalid,
                 "--progress-from must be auto, or a regular expression (RE2's) with a group: " +
                     forms.error().message};
  }
  return *forms;
}

Result<bool> ParseEventHandler(const std::string& text) {
  if (text != "null" && text != "console") {
    return Error{ErrorKind::kInvalid, "--event-log-handler must be null or console: '" + text +
                                          "' would be a Python plug-in, which ddprun cannot load"};
  }
  return text == "console";
}

Result<void> CheckLogsSpecs(const std::string& text) {
  if (text != "default") {
    return Error{ErrorKind::kInvalid,
                 "--logs-specs='" + text +
                     "' would be a Python plug-in, which ddprun cannot load: use --log-dir, "
                     "--redirects and --tee"};
  }
  return {};
}

// As one argument too, of the nodes that a launch elsewhere has started. Linux counts its flag.
constexpr std::size_t kMostOfVariable = (std::size_t{128} << 10) - 256;

// NAME=VALUE, one a line.
Result<std::map<std::string, std::string>> ParseVariables(const std::string& text) {
  std::map<std::string, std::string> variables;
  const auto ours = ToEnvironment({});
  for (const std::string& line : Split(text, '\n')) {
    const std::size_t equals = line.find('=');
    const std::string name = line.substr(0, equals);
    if (equals == std::string::npos || !HasOnly(name, "_") || IsDigit(name[0])) {
      return Invalid("--env must be NAME=VALUE", line);
    }
    if (ours.contains(name) || name.starts_with("DDPRUN_") || name.starts_with("PET_")) {
      return Invalid("--env cannot set what ddprun itself sets for a worker", name);
    }
    if (name == "CUDA_VISIBLE_DEVICES") {
      return Invalid("--env does not choose GPUs: use --gpu-ids", line);
    }
    if (line.size() > kMostOfVariable) {
      return Invalid("--env: Linux allows no variable of more than 128 KiB", name);
    }
    variables[name] = line.substr(equals + 1);
  }
  return variables;
}

void AddSize(CLI::App& app, RawFlags& raw) {
  LaunchConfig& config = raw.config;
  FlagRows size(app, "Size");
  size.Value("--nnodes,--nodes", raw.nnodes, "N|MIN:MAX",
             "Nodes: N, or MIN:MAX for an elastic run");
  size.Value("--scale-up", config.spec.scale_up, "restart|never",
             "When a node joins while fewer than MAX run: restart (all workers have "
             "--shutdown-timeout to save, then all start again with it) or never (it waits as a "
             "spare). The first node's value applies");
  size.Value("--nproc-per-node", raw.workers, "N|auto|gpu|cpu",
             "Workers on this node: a number, one per visible GPU, one per allowed CPU; auto: GPUs "
             "if there are any, else CPUs");
  size.Value("--gpu-ids,--gpus", raw.gpus, "LIST",
             "GPUs of this node that the run may use, as 1,3: indices into CUDA_VISIBLE_DEVICES, "
             "or UUIDs, also of MIG slices. Workers see them in "
             "CUDA_VISIBLE_DEVICES, and --nproc-per-node=gpu counts them");
  size.Value("--node-rank", raw.node_rank, "N",
             "This node's rank, where ranks are fixed by hand; rank 0 hosts the server");
}

void AddHosts(CLI::App& app, RawFlags& raw) {
  LaunchConfig& config = raw.config;
  FlagRows hosts(app, "Hosts");
  hosts.Value("--hosts", raw.hosts, "HOST[:N],...",
              "Start a node on each of these hosts through ssh, as n1,n2:4,user@n3; N is that "
              "host's --nproc-per-node. A host that is listed N times has N workers. --nnodes is "
              "then the number of hosts, unless it is set (ddprun help hosts)");
  hosts.Value("--hostfile", raw.hostfile, "FILE",
              "The same, one host a line, with slots=N for its --nproc-per-node and max_slots=N "
              "for the most that it may have, as Open MPI reads it");
  hosts.Read(
      "--launch-agent", config.launch_agent, kSsh, "COMMAND",
      "Command that starts ddprun on a host of --hosts: words without quotes. ddprun appends the "
      "host and a command for its shell. It must pass standard input and output through",
      ParseAgent);
  hosts.Switch("--copy", config.copy,
               "With --hosts: send ddprun and the program's file to hosts that lack them");
  hosts.Value("--pool", raw.pool, "HOST[:PORT]",
              "Have the daemons of this pool start the nodes (`ddprun daemon`; ddprun help pool): "
              "--nnodes of them, as soon as they are free");
  hosts.Switch("--detach", config.detach,
               "With --pool: exit as soon as the pool has accepted the run, which continues");
}

void AddRendezvous(CLI::App& app, RawFlags& raw) {
  LaunchConfig& config = raw.config;
  FlagRows rendezvous(app, "Rendezvous");
  rendezvous.Value("--rdzv-endpoint,--endpoint", raw.endpoint, "HOST[:PORT]",
                   "Address of the rendezvous (default 127.0.0.1:29400). The first node that has "
                   "this address hosts the server");
  rendezvous.Read("--rdzv-id", raw.run_id, raw.run_id, "NAME",
                  "Name of the run, by which a server tells runs apart", ParseRunName);
  rendezvous.Read("--rdzv-backend", raw.backend, raw.backend, "ddprun|c10d|static",
                  "All three use ddprun's own server", ParseBackend);
  rendezvous.Value(
      "--rdzv-conf", raw.conf, "KEY=VALUE,...",
      "join_timeout=DURATION (10m; of a static rendezvous also called timeout), "
      "last_call_timeout=DURATION (5s); torchrun's other keys are checked and have no effect");
  rendezvous.Switch("--standalone", raw.standalone,
                    "One node, without a network rendezvous; the default with one node");
  rendezvous.Value("--local-addr", config.local_address, "ADDRESS",
                   "Address under which other nodes reach this one (default: the one that faces "
                   "the endpoint)");
  rendezvous.Value(
      "--interface", config.interface, "NAME",
      "Network interface, as ib0, whose address is used without --local-addr; also set for workers "
      "as GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME, unless these are set");
  rendezvous.Value(
      "--token-file", config.token_file, "FILE",
      "File (mode 600) with the token that every node must prove to the rendezvous, and `ddprun "
      "status`, `drain` and `stop` too (or DDPRUN_TOKEN). Without it, nodes that share --run-dir "
      "or whose endpoint is on loopback use a generated token. Otherwise any node may join, and "
      "only drain and stop need a token, which is in the server's run directory");
  rendezvous.Value("--tls-ca", config.tls.authority, "FILE",
                   "Speak TLS with the rendezvous, and trust what this certificate (PEM) signed. "
                   "The server's must name the host in --rdzv-endpoint");
  rendezvous.Value("--tls-cert", config.tls.certificate, "FILE",
                   "This node's certificate (PEM), signed by --tls-ca. A server asks for one; a "
                   "node without one never hosts the server");
  rendezvous.Value("--tls-key", config.tls.key, "FILE",
                   "The key of --tls-cert (PEM, mode 600, no passphrase)");
  rendezvous.Read(
      "--store-allow", config.store_allowed, "", "CIDR,...",
      "Addresses and networks whose processes may use the workers' store on this node, beside the "
      "nodes of the run. On this machine only processes of this user may. any: every client",
      AllowList::Parse);
  rendezvous.Switch(
      "--insecure", config.insecure,
      "Generate no token: any process that reaches the endpoint may join. Set it on every node. "
      "Also lets the server listen on every address of this machine (0.0.0.0, ::)");
  rendezvous.Value("--run-dir,--shared-dir", config.run_dir, "DIR|none",
                   "A directory that all nodes share, a new one for each run: when the host of the "
                   "server dies, another node hosts the server and the run continues. Not with a "
                   "static rendezvous. Default: .ddprun/JOB.STEP.RESTARTS in a Slurm step whose "
                   "working directory is on NFS, Lustre, GPFS, BeeGFS, CephFS or WekaFS, if the "
                   "run can continue with fewer nodes; it is removed when the run has succeeded");
  rendezvous.Value("--master-addr", raw.master_addr, "HOST",
                   "Static rendezvous: the host of node rank 0 (default 127.0.0.1), and, as it is "
                   "written, MASTER_ADDR of every worker. Not used with --rdzv-endpoint, "
                   "--standalone or --rdzv-backend=c10d");
  rendezvous.Value("--master-port", raw.master_port, "PORT",
                   "Static rendezvous: its port (default 29500 with --master-addr), and "
                   "MASTER_PORT of every worker; shared by the rendezvous and the workers' store. "
                   "Used only where --master-addr is");
}

void AddScheduler(CLI::App& app, RawFlags& raw) {
  LaunchConfig& config = raw.config;
  FlagRows scheduler(app, "Scheduler");
  scheduler.Switch("--no-auto-srun", config.no_auto_srun,
                   "In a Slurm job, but outside of a step: print the right command instead of "
                   "starting ddprun through srun");
  scheduler.Value(
      "--stop-before", config.stop_before, "DURATION",
      "This long before the job ends, every worker gets SIGTERM and has --shutdown-timeout to "
      "save. If all have saved, ddprun exits with 75: start this job again. 90s, 5m; 0: never. "
      "Slurm reports when the job ends; elsewhere set --time-limit");
  scheduler.Read("--time-limit", config.time_limit, "", "DURATION",
                 "The job ends this long after ddprun's start (default: as the scheduler reports): "
                 "for --stop-before, and shown by `ddprun status`. 90s, 5m, 24h",
                 std::bind_front(ParseDuration, "--time-limit"));
}

void AddProgram(CLI::App& app, RawFlags& raw) {
  LaunchConfig& config = raw.config;
  FlagRows program(app, "Program");
  program.Switch("-m,--module", config.module, "PROGRAM is a Python module");
  program.Switch("--no-python", config.no_python, "Execute PROGRAM itself, even a .py file");
  program.Switch(
      "--run-path", config.run_path,
      "Run PROGRAM through Python's runpy.run_path, whatever its name; overrides --no-python");
  program.Switch("--pass-local-rank", config.pass_local_rank,
                 "Give PROGRAM --local-rank=<n> as its first argument, as torch.distributed.launch "
                 "does; LOCAL_RANK is set too");
  program.Switch("--use-env", raw.use_env,
                 "Accepted for compatibility with torch.distributed.launch: the local rank is in "
                 "LOCAL_RANK, not in an argument (not with --pass-local-rank)");
  program
      .Read("--env", config.variables, "", "NAME=VALUE",
            "Set this variable for every worker, on all nodes; may be repeated. VALUE may contain "
            "${role_name}, ${local_rank}, ${rank} and ${hostname} ($${rank} stands for ${rank} "
            "itself). Not for secrets: command lines are visible",
            ParseVariables)
      ->multi_option_policy(CLI::MultiOptionPolicy::Join);  // Values add up, a line each.
  program.Switch("--virtual-local-rank", config.virtual_local_rank,
                 "LOCAL_RANK=0 for every worker, and CUDA_VISIBLE_DEVICES its one GPU");
  program.Choice(
      "--numa-binding", config.numa, "none|node|socket|exclusive|core-complex",
      "Bind each worker to CPUs near its GPU: its NUMA node, its socket, its own share of "
      "the node's cores, or one last-level cache. Without GPUs workers are spread over "
      "the nodes. Always within the CPUs that ddprun itself may use; needs no numactl");
  program.Read(
      "--preload", config.preload, config.preload, "auto|MODULES|imports|none",
      "Modules that one process per node loads ahead, from which the next workers are forked: a "
      "restart then takes a tenth of a second instead of what the imports take. auto: "
      "torch and torch._dynamo, in the background, once the workers of a Python program "
      "have loaded torch and may be started again. MODULES: these, before the first "
      "workers. imports: what the script imports outside of functions (imports,-MODULE "
      "leaves one out). none: nothing, not for ddprun-train either",
      ParsePreload);
  program.Value("--keep-warm", config.keep_warm, "DURATION",
                "The preload process outlives the run for this long. The next run of the same "
                "program in the same directory and environment then starts without its imports. "
                "10m, 1h; 0: it ends with the run. `ddprun preload` shows and ends it");
  program.Switch("--scrub-env", config.scrub_env,
                 "Take MPI's variables (OMPI_*, PMI_*, PMIX_*, MPI_*, HYDRA_*) out of the workers' "
                 "environment");
  program.Read("--role", config.role, config.role, "NAME", "Name of the workers' role", ParseRole);
  program.Choice(
      "--start-method", raw.start_method, "spawn|fork|forkserver",
      "Accepted for compatibility with torchrun, without effect: every worker is a new program");
}

void AddEnding(CLI::App& app, RawFlags& raw) {
  LaunchConfig& config = raw.config;
  FlagRows ending(app, "Restarts and signals");
  ending.Value("--max-restarts", config.spec.max_restarts, "N",
               "Worker failures after which the run still continues, counted over all nodes");
  ending.Value("--restart-window", config.spec.restart_window, "DURATION",
               "Only failures within this time count against --max-restarts: 30, 10m, 1h; "
               "0: all of the run's");
  ending.Value(
      "--crash-loop-limit", config.spec.crash_loop_limit, "N",
      "The run ends with 76, although restarts are left, after this many failures in a row without "
      "a new highest step (STEP=N on the notify socket). So it does after as many equal errors "
      "that cannot heal (a missing module, a usage error) before any progress. 0: never");
  ending.Value("--restart-backoff", config.spec.restart_backoff, "DURATION",
               "Longest delay between restarts: 30, 90s, 5m; 0: no delay. The first restart is "
               "immediate. While workers fail without progress, later ones begin 2, 4, 8, ... s "
               "after the start before. Progress is a step, a collective, or a minute of life");
  ending.Read("--give-up-code", config.give_up_code, "", "N",
              "Exit code of a run that must not be tried again: the restarts are spent, a worker "
              "asked not to be restarted (76), or workers hung (124). For a scheduler's rules, as "
              "Kubernetes' podFailurePolicy. Default: the code of the cause",
              ParseGiveUpCode);
  ending.Value("--shutdown-timeout", config.spec.shutdown_timeout, "DURATION",
               "Time from a forwarded signal to SIGKILL, the same on all nodes. If set, it also "
               "applies to the peers of a failed worker. Otherwise these have 30 s if they catch "
               "SIGTERM and work, 5 s if idle (TORCH_ELASTIC_SHUTDOWN_TIMEOUT sets it too)");
  ending.Value("--linger", config.linger, "DURATION",
               "Processes that workers leave behind, as an upload, may run for this long after the "
               "node's last worker has ended. After a failure or a stop they have no more time "
               "than workers. Then they are killed. 30, 90s, 5m; 0: at once");
  ending.Value("--fence-after", config.spec.fence_after, "DURATION",
               "A node that the rendezvous has not answered for this long kills its own workers, "
               "and a lost node is not replaced earlier: so two worlds never run at once, whatever "
               "the program. 30, 90s, 5m; 0: the workers of a node that is cut off continue");
  ending.Choice(
      "--host-check", config.host_check, "on|observe|off",
      "Action when the host health check fails (a GPU that has fallen off the bus or must "
      "be reset): on: this node does not join until it passes, as with --node-check; "
      "observe: only reported, in status, events and metrics; off: disabled "
      "(ddprun help node-checks)");
  ending.Value(
      "--node-check", config.node_check, "COMMAND",
      "A command for /bin/sh that checks this machine, before it joins and after workers have "
      "failed on it. Exit code 0: fit. Any other: the node does not join, the command's last line "
      "is the reason, a spare takes its place, and the check runs again later "
      "(ddprun help node-checks)");
  ending.Value("--node-check-timeout", config.node_check_timeout, "DURATION",
               "Longest time of a check. After it the command and all that it has started are "
               "killed, and the check has failed. 30, 90s, 5m");
  ending.Read("--signals-to-handle", config.signals, kDefaultSignals, "SIGNAL,...",
              "Signals that are passed on to the workers. SIGUSR1 and SIGUSR2 do not stop the "
              "run, and are passed on unless this flag leaves them out; another one that is left "
              "out ends the run at once",
              ParseSignals);
  ending.Read(
      "--monitor-interval", raw.no_effect, "0.1", "DURATION",
      "Accepted for compatibility with torchrun, without effect: ddprun notices the end of a "
      "worker at once",
      std::bind_front(ParseDuration, "--monitor-interval"));
  ending.Read("--exit-barrier-timeout", raw.no_effect, "300", "DURATION",
              "Accepted for scripts that set it, without effect: a run ends on all nodes together",
              std::bind_front(ParseDuration, "--exit-barrier-timeout"));
}

void AddHangs(CLI::App& app, RawFlags& raw) {
  LaunchConfig& config = raw.config;
  FlagRows hangs(app, "Hangs");
  hangs.Value("--hang-timeout", config.hang_timeout, "DURATION",
              "Workers that make no progress for this long hang: their stacks are kept and all "
              "workers restarted. Progress is STEP= or PHASE= on DDPRUN_NOTIFY_SOCKET, else, of "
              "Python programs, torch's collectives. 30, 90s, 5m; 0: never "
              "(ddprun help writing-a-worker). Unless this flag or --on-hang is set, a hang is "
              "only reported; with --start-timeout=20m but not this flag only starts are judged");
  hangs.Read("--start-timeout", config.start_timeout, "", "DURATION",
             "Workers that make no first progress within this time of their start hang too: a "
             "stale lock, a download that stalls. A worker without --progress-from must be a "
             "Python program that uses torch. Default: three times --hang-timeout, and only "
             "workers that use no CPU time; 0: never",
             std::bind_front(ParseDuration, "--start-timeout"));
  hangs.Choice(
      "--on-hang", config.spec.on_hang, "restart|fail|observe",
      "The consequence of a hang: restart (uses one of --max-restarts); fail: the run ends "
      "with 124; observe: only a message, the evidence and an event (the default if "
      "none of --on-hang, --hang-timeout and --start-timeout is set)");
  hangs.Read("--progress-from", config.progress_from, "", "REGEX|auto",
             "Read the workers' progress from what they print: the first group of REGEX is the "
             "step of the rank that printed it, as 'step[ =:]+(\\d+)'; auto: the bars and lines "
             "of the usual frameworks (ddprun help writing-a-worker)",
             ParseProgressForms);
}

void AddOutput(CLI::App& app, RawFlags& raw) {
  LaunchConfig& config = raw.config;
  FlagRows output(app, "Output");
  output.Value(
      "--log-dir", config.log_dir, "DIR",
      "Keep events, reports and evidence in DIR/<run id>_<unique>, and the workers' output below "
      "attempt_<n>/<local rank>: what -r or -t send to files, else all of it, with the same "
      "lines on the console. /dev/null: write no file at all");
  output.Read("-r,--redirects", "0", "BITS",
              "Streams to files only: 1 stdout, 2 stderr, 3 both, or 0:3,1:0 by local rank",
              [&config](const std::string& text) {
                return ParseStreams("--redirects", text, config.output.redirects,
                                    config.output.redirects_of);
              });
  output.Read("-t,--tee", "0", "BITS", "Streams to files and console, same form",
              [&config](const std::string& text) {
                return ParseStreams("--tee", text, config.output.tee, config.output.tee_of);
              });
  output.Value("--prefix", config.output.prefix_all, "none|rank",
               "rank: [<role><local rank>]: before every line");
  output.Switch("--merge-output", config.merge_output,
                "Equal lines that ranks of this node print within 0.2 s are shown once, with their "
                "ranks before them; files have all");
  output.Value(
      "--log-line-prefix-template", config.output.prefix_template, "TEMPLATE",
      "Text before teed lines; may contain ${role_name}, ${local_rank}, ${rank}, ${hostname} "
      "(TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE changes the default)");
  output.Value("--attach-rank", raw.attach_rank, "RANK",
               "The worker of this rank gets ddprun's own terminal, for a debugger (breakpoint())");
  output.Read("--local-ranks-filter", config.output.console_ranks, "", "RANKS",
              "Only these local ranks, as 0,2, are shown on the console; files have all",
              std::bind_front(ParseRanks, "--local-ranks-filter"));
  output.Read("--duplicate-stdout-filters", config.output.stdout_filters, "", "TEXT,...",
              "Teed lines with any of these texts, as a,b, also go to filtered_stdout.log in the "
              "attempt's directory; ,, is a comma",
              ParseFilters);
  output.Read("--duplicate-stderr-filters", config.output.stderr_filters, "", "TEXT,...",
              "The same for stderr: filtered_stderr.log", ParseFilters);
  output.Read("--event-log-handler", config.console_events, "null", "null|console",
              "console: torchrun's events, one JSON object per line on stderr, when a worker "
              "starts or ends and when the agent does; a Python plug-in is refused",
              ParseEventHandler);
  output.Read("--http-listen", config.http_listen, "", "HOST:PORT",
              "Answer GET /livez, /readyz and /metrics (Prometheus) there, on every node: for "
              "probes and monitoring (ddprun help watching). Reading needs no token; :PORT is "
              "every IPv4 address",
              ParseHttpListen);
  output.Read("--logs-specs", "", "default",
              "Only 'default': Python plug-ins that choose the log files are refused",
              CheckLogsSpecs);
  output.Choice(
      "--log-format", config.log_format, "text|json",
      "json: each of ddprun's own lines on stderr is a JSON object with unix_time, level, "
      "who and text; what the program prints stays as it is");
  output.Switch("-q,--quiet", config.quiet,
                "Of ddprun's own lines only warnings and errors; what the program prints stays");
  output.Switch("-v,--verbose", config.verbose, "Print every step of ddprun's own");
}

void AddHelp(CLI::App& app, RawFlags& raw) {
  LaunchConfig& config = raw.config;
  FlagRows help(app, "Help");
  help.Switch("--dry-run", config.dry_run,
              "Print what would be done, and where each setting comes from; start nothing");
  help.Value(
      "--config", raw.config_file, "FILE",
      "File of `name = value` lines, names as the flags' (default ddprun.toml where there is "
      "one); flags and the environment override it");
  help.Value("--print-completion", raw.print_completion, "bash|zsh|fish",
             "Print the shell's completion script, as `ddprun completion` does");
  help.Switch("--version", raw.version, "Print the version");
  help.Switch("-h", raw.short_help, "The short help");
  help.Switch("--help", raw.help, "Every flag");
}

}  // namespace

void AddFlags(CLI::App& app, RawFlags& raw) {
  AddSize(app, raw);
  AddHosts(app, raw);
  AddRendezvous(app, raw);
  AddScheduler(app, raw);
  AddProgram(app, raw);
  AddEnding(app, raw);
  AddHangs(app, raw);
  AddOutput(app, raw);
  AddHelp(app, raw);
}

std::vector<FlagRow> FlagTable() {
  CLI::App app;
  RawFlags raw;
  app.set_help_flag();
  AddFlags(app, raw);
  return RowsOf(app);
}

}  // namespace ddprun

// The configuration that the command line, and the environment beside it, ask for. Values and their
// validation; no flag is read anywhere else, none after the start. A bad value ends ddprun with
// exit code 2, and all problems are reported at once (problems.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent_options.h"
#include "agent/workers/numa_binding.h"
#include "common/endpoint.h"
#include "common/log.h"
#include "common/result.h"
#include "common/time.h"
#include "launcher/command_line/gpus.h"
#include "launcher/command_line/host_list.h"
#include "launcher/environment/launch_context.h"
#include "launcher/setting.h"
#include "rendezvous/listener/tls.h"
#include "rendezvous/messages/run_spec.h"
#include "rendezvous/store/allow_list.h"

namespace ddprun {

// --signals-to-handle
struct HandledSignals {
  std::string text;                  // As given; every worker finds it in its environment.
  std::set<int> numbers;             // Passed on to the workers.
  std::vector<std::string> unknown;  // Reported once, and left out.
};

// Which peers may call, what this process shows where it calls, and what it logs.
struct AccessFlags {
  // --token-file: the file with the token that all peers must prove; another token than the others'
  // keeps this node out.
  std::string token_file;
  // DDPRUN_TOKEN: the token itself, which no worker sees.
  std::string token;
  // --run-dir: a directory that the nodes share; empty: no other node becomes the leader.
  std::string run_dir;
  // --tls-cert, --tls-key, --tls-ca: a file that is not there ends a run of several nodes with exit
  // code 2; a run of one node reads none.
  TlsFiles tls;
  // --insecure: no token is drawn, and any peer may call.
  bool insecure = false;
  // --verbose: every step is logged; with --quiet ddprun ends with exit code 2.
  bool verbose = false;
  // --log-format: a collector that reads lines of text cannot read JSON.
  LogFormat log_format = LogFormat::kText;
  // These flags, and perhaps others, with their origins; without them a message names no origin.
  std::vector<Setting> settings;
};

struct LaunchConfig : AccessFlags, ProgramRequest, WorkerFlags {
  // The settings on which nodes must agree as kSpecFields says: a node with another one is refused.
  RunSpec spec;
  // --nproc-per-node: too many workers share GPUs and cores, or exhaust the memory.
  std::uint32_t workers = 1;
  // --node-rank; none: the server gives this node its rank. A rank beyond --nnodes ends ddprun with
  // exit code 2. A rank that another node has makes this node wait.
  std::optional<std::uint32_t> node_rank;
  // --hosts, --hostfile; none: this node starts here.
  std::vector<LaunchHost> hosts;
  // --launch-agent: a command that cannot run on a host makes that host unreachable.
  std::vector<std::string> launch_agent;
  // --copy: hosts get ddprun and the program; false: a host that lacks them cannot start.
  bool copy = false;
  // --pool: its daemons start the nodes; none: this launch does.
  std::optional<Endpoint> pool;
  // --detach: the run does not need this launch; without --pool ddprun ends with exit code 2.
  bool detach = false;
  // No other node can come, so no socket is opened; false: the node waits for others.
  bool standalone = true;
  // --rdzv-endpoint, else --master-addr and --master-port: the address of the rendezvous server. An
  // address at which no server is found ends ddprun with exit code 69.
  Endpoint endpoint{"127.0.0.1", 29400};
  // The workers' MASTER_ADDR:MASTER_PORT is exactly `endpoint`; false: they get the store's
  // address.
  bool literal_master = false;
  // --rdzv-id: nodes with different names wait for each other in vain; empty: drawn at the start of
  // a standalone run.
  std::string run_id;
  // --local-addr: the address at which other nodes reach this one; empty: that of `interface`, else
  // the one that faces `endpoint`. An address of another machine ends ddprun with exit code 2.
  std::string local_address;
  // --interface: the network interface whose address is this node's; empty: not given. An interface
  // that this machine lacks ends ddprun with exit code 2.
  std::string interface;
  // --store-allow: too few addresses refuse workers, too many let other processes change their
  // keys.
  AllowList store_allowed;
  // This process is in a Slurm job, whose nodes may share a token by MUNGE.
  bool in_slurm_job = false;
  // ddprun chose run_dir, so it makes it, and removes it after a success.
  bool own_run_dir = false;
  // --role: shown to workers and in output prefixes; more than 128 characters end ddprun with exit
  // code 2.
  std::string role = "default";
  // --give-up-code: a code for which the scheduler starts the job again repeats the failure; 0: the
  // run's own code.
  int give_up_code = 0;
  // --gpu-ids, as CUDA_VISIBLE_DEVICES will have it; empty: all GPUs. A GPU that is not there makes
  // this node one that cannot start; where no GPU is found at all it is a warning.
  std::string gpus;
  // --hang-timeout: too short restarts workers in a long step; 0: no worker is judged after its
  // start.
  Duration hang_timeout{600'000};
  // The user has not set hang_timeout: a hang is only reported.
  bool hang_by_default = false;
  // --start-timeout: too short restarts workers that load data; 0: never. Unset, it follows from
  // hang_timeout.
  Duration start_timeout{0};
  // --stop-before: shorter than --shutdown-timeout, the job ends before workers have saved; 0: they
  // are not asked to save.
  Duration stop_before{0};
  // --time-limit: too long asks workers to save too late; 0: as the scheduler reports.
  Duration time_limit{0};

  // Why the workers cannot start on this machine; empty: they can.
  std::string cannot_start;
  // --numa-binding: a mode that this machine cannot satisfy keeps its workers from starting.
  NumaMode numa = NumaMode::kNone;
  // --preload: a module that cannot be imported makes every start take its imports.
  std::string preload = "auto";
  // --keep-warm: how long the preload process outlives the run; 0: not at all. Too long holds its
  // memory.
  Duration keep_warm{0};
  // --scrub-env: workers get no variables of MPI; false: a library may take them for its own job.
  bool scrub_env = false;
  // --http-listen: where probes and metrics are served; an address in use ends ddprun, none: they
  // are not served.
  std::optional<Endpoint> http_listen;
  // --signals-to-handle: a signal that is left out ends the run at once.
  HandledSignals signals;

  // --log-dir: where files of the run are kept; empty: with -r or -t in a temporary directory that
  // stays, else none stays.
  std::string log_dir;
  // --merge-output: equal lines of several ranks are shown once, up to 0.2 s late.
  bool merge_output = false;
  // --quiet: only warnings and errors are logged.
  bool quiet = false;
  // --event-log-handler=console: torchrun's events go to stderr; false: to no place.
  bool console_events = false;
  // --dry-run: the plan is printed and nothing started.
  bool dry_run = false;
  // --no-auto-srun: in a Slurm job outside of a step, the right command is printed; false: ddprun
  // starts itself through srun.
  bool no_auto_srun = false;
  // The words by which ddprun was called, which a start through srun, or in a kept preload process,
  // repeats.
  std::vector<std::string> own_command;

  // Files are wanted for some stream of some worker.
  bool KeepsOutput() const {
    return output.redirects != 0 || output.tee != 0 || !output.redirects_of.empty() ||
           !output.tee_of.empty() || output.copy;
  }

  // --log-dir=/dev/null: no file of a worker at all.
  bool DiscardsOutput() const { return log_dir == "/dev/null"; }

  LogLevel LeastLevel() const {
    return verbose ? LogLevel::kDebug : quiet ? LogLevel::kWarning : LogLevel::kInfo;
  }

  // The scheduler or shell that started this process, and as which node.
  LaunchContext context;

  // Variables that configure this launch, DDPRUN_<FLAG> and PET_<FLAG>: workers do not get them, or
  // a launch inside a worker would be configured by them too.
  std::vector<std::string> own_variables;
  // Options that are ignored, and why; printed once.
  std::vector<std::string> warnings;
};

struct ServerConfig : AccessFlags {
  // Where the server listens: an address in use, or of another machine, ends it at the start.
  Endpoint listen{"127.0.0.1", 29400};
  // The directory of the server's claim; empty: a server that is started again knows no outcome and
  // no term.
  std::string state_dir;
  // Where probes, metrics and page are served too; none: on the server's own port alone.
  std::optional<Endpoint> http_listen;
  // This process is in a Slurm job, whose nodes may share a token by MUNGE.
  bool in_slurm_job = false;
};

// `ddprun daemon`.
struct DaemonConfig : AccessFlags {
  // The pool's server: at a wrong address the daemon waits, and no run reaches it.
  Endpoint pool;
  // The daemon's name in the pool; empty: the host's. A name that another daemon of this
  // machine has ends this one.
  std::string name;
  // The path of ddprun itself, which starts the runs.
  std::string program;
  // Variables that would configure its runs, and are ignored; one left out configures every run.
  std::vector<std::string> launch_variables;
  // The command that checks this machine; empty: none is run, and runs start on a bad machine.
  std::string node_check;
  // Longest time of a check: too short refuses a good machine, too long delays its runs.
  Duration node_check_timeout{60'000};
  // How long a preload process waits for the next run: too long holds its memory; 0: it ends with
  // its run.
  Duration keep_warm{600'000};
};

// Whether the flag was set, to whatever value.
inline bool IsSet(const LaunchConfig& config, const std::string& flag) {
  return std::ranges::any_of(config.settings, [&](const Setting& setting) {
    return setting.name == flag && setting.origin != kDefault;
  });
}

// Whether this process starts no workers itself, but has other machines do so.
inline bool StartsElsewhere(const LaunchConfig& config) {
  return !config.hosts.empty() || config.pool.has_value();
}

// Whether the nodes know where else than at one endpoint a server may be.
inline bool HasFailover(const LaunchConfig& config) {
  return !config.run_dir.empty();
}

// A node that cannot start its workers joins to say so, where other nodes wait for it.
inline bool TellsOtherNodes(const LaunchConfig& config) {
  return !config.standalone && !config.dry_run && config.context.launcher.empty();
}

// "HOST:PORT" or ":PORT" of --http-listen, port 0 too.
Result<Endpoint> ParseHttpListen(const std::string& text);

// "2" -> 2:2, "1:4". Anything else, zero, or MIN > MAX is refused.
Result<std::pair<std::uint32_t, std::uint32_t>> ParseNodes(const std::string& text);

// A count, "cpu", "gpu" or "auto" (GPUs if there are any, else CPUs). `gpus`: what --gpu-ids has
// chosen of them; empty: nothing.
Result<std::uint32_t> ParseWorkers(const std::string& text, const std::string& gpus = "");

// "3", or "0:3,1:0,2:1" by local rank.
Result<void> ParseStreams(const std::string& flag, const std::string& text, std::uint32_t& all,
                          std::map<std::uint32_t, std::uint32_t>& by_rank);

// "0,2": local ranks. Empty text: all, hence nothing.
Result<std::optional<std::vector<std::uint32_t>>> ParseRanks(const std::string& flag,
                                                             const std::string& text);

// "apple,orange"; two commas together are one that belongs to a filter.
Result<std::vector<std::string>> ParseFilters(const std::string& text);

// "join_timeout=600,last_call_timeout=0.5". Keys of torchrun that mean nothing here are accepted;
// where its rendezvous is static, its timeout is the join timeout unless that is said too.
Result<void> ParseRendezvousConf(const std::string& text, bool is_static, LaunchConfig& config);

inline constexpr const char* kDefaultSignals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";

// "SIGTERM,SIGINT". By default SIGUSR1 and SIGUSR2 are passed on too.
Result<HandledSignals> ParseSignals(const std::string& text);

// "torch,torch._dynamo", "imports": names and commas, nothing else.
Result<std::string> ParsePreload(const std::string& preload);

// "30", "90s", "500ms", "5m", "1h30m", "1d", "01:30:00". Without a unit: seconds, fractions too.
Result<Duration> ParseDuration(const std::string& flag, const std::string& text);

// Whether a run may be named so: 1 to 128 printable characters without spaces and '/'.
bool IsRunName(std::string_view text);

// Checks the value of --fence-after=`text`: 0, or at least two leases of so many nodes.
Result<void> CheckFence(const RunSpec& spec, const std::string& text);

}  // namespace ddprun

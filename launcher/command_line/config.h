// The configuration that the command line, and the environment beside it, ask for. Values and their
// validation; no flag is read anywhere else, none after the start. A bad value ends ddprun with
// exit code 2, and all problems are reported at once (problems.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/host/host_judge.h"
#include "agent/workers/numa_binding.h"
#include "agent/workers/progress_lines.h"
#include "agent/workers/worker_spec.h"
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

// Which peers may call, and what this process shows where it calls.
struct AccessFlags {
  std::string token_file;         // --token-file: the token that all peers must prove.
  std::string token;              // DDPRUN_TOKEN; no worker sees it.
  std::string run_dir;            // --run-dir: shared by the nodes; empty: no node takes over.
  TlsFiles tls;                   // --tls-cert, --tls-key, --tls-ca
  bool insecure = false;          // --insecure: no token is drawn, and any peer may call.
  std::vector<Setting> settings;  // These flags, and perhaps others, with their origins.
};

struct LaunchConfig : AccessFlags, ProgramRequest {
  RunSpec spec;               // kSpecFields says where nodes must agree.
  std::uint32_t workers = 1;  // --nproc-per-node
  // --node-rank; none: the server gives this node its rank. A rank beyond --nnodes ends ddprun with
  // exit code 2. A rank that another node has makes this node wait.
  std::optional<std::uint32_t> node_rank;
  std::vector<LaunchHost> hosts;          // --hosts, --hostfile; none: this node starts here.
  std::vector<std::string> launch_agent;  // The words of --launch-agent.
  bool copy = false;                      // --copy: hosts need not have ddprun and the program.
  std::optional<Endpoint> pool;           // --pool: its daemons start the nodes; none: they do not.
  bool detach = false;                    // --detach: the run does not need this launch.
  bool standalone = true;                 // No other node can come: no socket is opened.
  // --rdzv-endpoint, else --master-addr and --master-port: the address of the rendezvous server. An
  // address at which no server is found ends ddprun with exit code 69.
  Endpoint endpoint{"127.0.0.1", 29400};
  bool literal_master = false;  // The workers' MASTER_ADDR:MASTER_PORT is exactly `endpoint`.
  std::string run_id;           // Empty: to be drawn (standalone).
  // --local-addr: the address at which other nodes reach this one; empty: that of `interface`, else
  // the one that faces `endpoint`. An address of another machine ends ddprun with exit code 2.
  std::string local_address;
  // --interface: the network interface whose address is this node's; empty: not given. An interface
  // that this machine lacks ends ddprun with exit code 2.
  std::string interface;
  AllowList store_allowed;    // --store-allow
  bool in_slurm_job = false;  // Nodes of one job may share a token by MUNGE.
  bool own_run_dir = false;   // ddprun chose it: it makes it, and removes it after a success.
  std::string role = "default";
  int give_up_code = 0;  // 0: the code that tells why.
  std::string gpus;      // --gpu-ids, as CUDA_VISIBLE_DEVICES will have it; empty: all there are.
  std::optional<std::uint32_t> attached;  // --attach-rank
  HostCheck host_check = HostCheck::kOn;  // --host-check
  std::string node_check;                 // --node-check; empty: none.
  Duration linger{0};                     // --linger
  Duration node_check_timeout{60'000};
  Duration hang_timeout{600'000};  // 0: no worker is judged by its heartbeats.
  bool hang_by_default = false;    // The user did not set it: a hang is only reported.
  Duration start_timeout{0};       // 0: never. Unset, it follows from hang_timeout.
  Duration stop_before{0};         // 0: no node learns that the job will end.
  Duration time_limit{0};          // 0: the scheduler may know.

  std::string cannot_start;  // Why the workers cannot start on this machine; empty: they can.
  NumaMode numa = NumaMode::kNone;
  bool virtual_local_rank = false;
  std::map<std::string, std::string> variables;  // --env: of workers, with macros in the values.
  std::string preload = "auto";
  Duration keep_warm{0};  // --keep-warm; 0: nothing outlives the run.
  bool scrub_env = false;
  std::optional<Endpoint> http_listen;  // --http-listen: probes and metrics; none: not served.
  HandledSignals signals;

  std::string log_dir;  // Empty: no worker output is kept.
  OutputRequest output;
  bool merge_output = false;
  std::shared_ptr<const ProgressForms> progress_from;  // --progress-from; nullptr: not given.
  bool verbose = false;
  bool quiet = false;
  LogFormat log_format = LogFormat::kText;
  bool console_events = false;  // --event-log-handler=console
  bool dry_run = false;
  bool no_auto_srun = false;             // Else srun is put before ddprun where it was forgotten.
  std::vector<std::string> own_command;  // As ddprun was called.

  // Files are wanted for some stream of some worker.
  bool KeepsOutput() const {
    return output.redirects != 0 || output.tee != 0 || !output.redirects_of.empty() ||
           !output.tee_of.empty();
  }

  // --log-dir=/dev/null: no file of a worker at all.
  bool DiscardsOutput() const { return log_dir == "/dev/null"; }

  LogLevel LeastLevel() const {
    return verbose ? LogLevel::kDebug : quiet ? LogLevel::kWarning : LogLevel::kInfo;
  }

  LaunchContext context;  // The scheduler or shell that started this process, and as which node.

  // Variables that configure this launch, DDPRUN_<FLAG> and PET_<FLAG>: workers do not get them, or
  // a launch inside a worker would be configured by them too.
  std::vector<std::string> own_variables;
  std::vector<std::string> warnings;  // Options that are ignored, and why; printed once.
};

struct ServerConfig : AccessFlags {
  Endpoint listen{"127.0.0.1", 29400};
  std::string state_dir;                // Empty: nothing is kept.
  std::optional<Endpoint> http_listen;  // Probes, metrics and page; none: on its own port alone.
  bool in_slurm_job = false;
  bool verbose = false;
  LogFormat log_format = LogFormat::kText;
};

// `ddprun daemon`.
struct DaemonConfig : AccessFlags {
  Endpoint pool;
  std::string name;                           // Empty: the host's.
  std::string program;                        // ddprun itself.
  std::vector<std::string> launch_variables;  // Variables that would configure its runs: ignored.
  std::string node_check;                     // Empty: none.
  Duration node_check_timeout{60'000};
  Duration keep_warm{600'000};
  bool verbose = false;
  LogFormat log_format = LogFormat::kText;
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

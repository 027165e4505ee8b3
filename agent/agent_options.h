// The options with which an agent was started: the same for all of its generations.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/node_agent.h"
#include "agent/host/host_watch.h"
#include "agent/listening_stores.h"
#include "agent/workers/kept_preload.h"
#include "agent/workers/progress_lines.h"
#include "agent/workers/worker_spec.h"

namespace ddprun {

// A worker was started, or has ended.
struct WorkerNews {
  const Placement& placement;
  std::uint32_t local_rank = 0;
  std::int64_t pid = 0;
  std::optional<ExitStatus> ended;
};

// Flags that a launch passes to its agent unchanged.
struct WorkerFlags {
  // --redirects, --tee and their like: streams without a bit go to the console alone. `directory`
  // is filled in per generation.
  OutputRequest output;
  // --progress-from: a form that fits no line leaves hangs unseen; nullptr: steps that workers
  // print are not read.
  std::shared_ptr<const ProgressForms> progress_from;
  // --virtual-local-rank: every worker has LOCAL_RANK=0 and sees one GPU as device 0; too few GPUs
  // keep them from starting.
  bool virtual_local_rank = false;
  // --linger: how long processes that workers left may run; 0: they are ended at once.
  Duration linger{0};
  // --node-check: the command that checks this machine, for /bin/sh. One that fails on good
  // machines keeps them out; empty: none is run.
  std::string node_check;
  // --node-check-timeout: too short refuses good machines, too long delays their joining.
  Duration node_check_timeout{60'000};
  // --host-check: off lets workers fail on a bad GPU.
  HostCheck host_check = HostCheck::kOn;
  // --env: variables of workers, with macros in the values (ExpandMacros); they override the
  // agent's own. Names of ddprun's own end ddprun with exit code 2.
  std::map<std::string, std::string> variables;
  // --attach-rank: the rank that has the terminal; none, or a rank of another node: no worker here
  // has it.
  std::optional<std::uint32_t> attached;
};

struct AgentOptions : WorkerFlags {
  // The core's configuration; its time-outs decide when workers are restarted.
  AgentConfig core;
  // The workers' program: a file that is not there makes every generation fail.
  Command command;
  // Some stream of a worker goes to a file (--log-dir, -r, -t); false: output goes to the console
  // alone.
  bool keep_logs = false;
  // --log-dir=/dev/null: no file of a worker at all, so `ddprun logs` has none to show.
  bool discard_logs = false;
  // The directory of the run's files; it must exist with mode 0700, or other users read them.
  std::filesystem::path run_directory;
  // The run directory outlives the run; if wrongly true, temporary files are left behind.
  bool directory_stays = false;
  // The directory of evidence bundles (watch/evidence_bundle); empty: a failure leaves none.
  std::filesystem::path evidence;
  // Where this node's stores listen: an address that other nodes cannot reach fails every
  // generation.
  StorePlace store;
  // Workers of all agents on this machine; 0: of this one. Too few give each worker too many
  // threads.
  std::uint32_t local_world_size = 0;
  // The modules that a preload process of Python workers loads (python_hook.h); empty: none, unless
  // the program is one by itself and `may_preload` is set.
  std::string preload;
  // ddprun chose the modules itself (WarmPlan's `automatic`); if wrongly false, they are loaded
  // before the first workers start.
  bool preload_auto = false;
  // Why Python workers have no preload process, in a message; empty: no message.
  std::string no_preload;
  // False: no preload process at all, so every start takes its imports.
  bool may_preload = true;
  // How long the preload process outlives the run (WarmPlan's); 0: it ends with the run.
  KeepPlan keep;
  // The preload process that the last run has kept; nullptr: a new one is started.
  std::shared_ptr<GivenPreload> given;
  // The launch reads the workers' output by requests (agent/commands/); if wrongly false, it shows
  // none.
  bool of_daemon = false;
  // A daemon's launch reads the output, or will; if wrongly true, the run's end waits for it.
  bool followed = false;
  // The machine's facts and GPUs that are watched.
  HostWatchOptions host;
  // Variables of workers that the user has not set; the agent's own override them.
  std::map<std::string, std::string> environment;
  // CPUs by local rank; none, or an empty set: the agent's own.
  std::vector<CpuSet> cpus;
  // Called before a generation and its files are made; unset: no caller wants to know.
  std::function<void()> on_start;
  // Called when a worker starts or ends; unset: no caller wants to know.
  std::function<void(const WorkerNews&)> on_worker;
};

}  // namespace ddprun

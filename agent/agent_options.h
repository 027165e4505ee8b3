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

struct AgentOptions {
  AgentConfig core;
  Command command;
  OutputRequest output;                                // `directory` is filled in per generation.
  std::shared_ptr<const ProgressForms> progress_from;  // nullptr: what workers print is not read.
  bool keep_logs = false;               // --log-dir was given: files are wanted, and kept.
  bool discard_logs = false;            // --log-dir=/dev/null: no file of a worker at all.
  std::filesystem::path run_directory;  // Exists, mode 0700.
  bool directory_stays = false;         // It outlives the run.
  std::filesystem::path evidence;       // Bundles lie there (watch/evidence_bundle); empty: none.
  StorePlace store;                     // Of this node.
  bool virtual_local_rank = false;
  std::uint32_t local_world_size = 0;  // Workers of all agents on this machine; 0: of this one.
  // The modules that a preload process of Python workers loads (python_hook.h); empty: none, unless
  // the program is one by itself and `may_preload` is set.
  std::string preload;
  bool preload_auto = false;  // WarmPlan's `automatic`.
  std::string no_preload;     // Why Python workers have none, for people; "": nothing to say.
  bool may_preload = true;
  KeepPlan keep;                        // WarmPlan's.
  std::shared_ptr<GivenPreload> given;  // The same.
  bool of_daemon = false;  // The launch reads the workers' output by requests (agent/commands/).
  bool followed = false;   // A daemon's launch reads the output, or will.
  Duration linger{0};      // RunnerConfig's.
  std::string node_check;  // Of this machine, for /bin/sh; empty: none is run.
  Duration node_check_timeout{60'000};
  HostCheck host_check = HostCheck::kOn;
  HostWatchOptions host;
  std::map<std::string, std::string> variables;    // --env: of workers, with macros (ExpandMacros).
  std::map<std::string, std::string> environment;  // Of workers, for variables that the user has
                                                   // not set.
  std::optional<std::uint32_t> attached;           // The rank that has the terminal.
  std::vector<CpuSet> cpus;  // By local rank; none, or an empty one: the agent's own.
  // None: no caller wants to know.
  std::function<void()> on_start;  // A generation is about to be made, files first.
  std::function<void(const WorkerNews&)> on_worker;
};

}  // namespace ddprun

#include "launcher/agent_options.h"

#include "agent/host/interfaces.h"
#include "agent/kept_launch.h"
#include "launcher/command_line/host_places.h"
#include "launcher/kept_preload_launch.h"

namespace ddprun {
namespace {

// A start takes imports and data besides what a step takes.
constexpr int kStartsPerHang = 3;

AgentConfig CoreOf(const LaunchConfig& config, const NodeId& node, const std::string& server) {
  AgentConfig core;
  core.run_id = config.run_id;
  core.node = node;
  core.host = HostName();
  core.spec = config.spec;
  if (IsSet(config, "shutdown-timeout")) {
    core.stop_grace = config.spec.shutdown_timeout;
  }
  core.node_rank = config.node_rank;
  core.workers = config.workers;
  core.first_local_rank = config.context.task_slot ? config.context.task_slot->local_rank : 0;
  core.role = config.role;
  core.server = server;
  core.successor = config.standalone || config.context.joins ? ""
                   : !HasFailover(config) ? "without --run-dir no other node becomes the leader"
                                          : "another node becomes the leader if it does not return";
  core.hang_timeout = config.hang_timeout;
  const bool start_is_set = IsSet(config, "start-timeout");
  core.says_unwatched = !config.hang_by_default;
  core.start_timeout = start_is_set ? config.start_timeout : kStartsPerHang * config.hang_timeout;
  core.start_spares_busy = !start_is_set;
  core.judges_unseen = start_is_set && config.progress_from != nullptr;
  core.preemptible = config.context.tells_before_end;
  core.leaves_alone =
      config.context.ends_nodes_alone && config.spec.min_nodes < config.spec.max_nodes;
  core.checks_node = !config.node_check.empty() ||
                     (config.host_check == HostCheck::kOn && GpuSource::Present(HostRoots()));
  core.alone = config.standalone;
  core.cannot_start = config.cannot_start;
  core.give_up_code = config.give_up_code;
  core.requeues = config.context.requeues;
  return core;
}

}  // namespace

std::map<std::string, std::string> NetworkOf(const LaunchConfig& config,
                                             const std::string& address) {
  const std::string name = config.standalone || IsLoopback(address) ? "" : InterfaceWith(address);
  return name.empty() ? std::map<std::string, std::string>()
                      : std::map<std::string, std::string>{{"GLOO_SOCKET_IFNAME", name}};
}

AgentOptions OptionsOf(const LaunchConfig& config, const Preparation& prepared,
                       const RunDirectory& directory, const NodeId& node,
                       const std::string& server) {
  AgentOptions options;
  static_cast<WorkerFlags&>(options) = config;
  options.core = CoreOf(config, node, server);
  if (config.context.task_slot) {
    options.local_world_size = config.context.task_slot->local_size;
  }
  options.command = prepared.command;
  options.cpus = prepared.numa.cpus;
  options.may_preload = config.preload != "none" && config.cannot_start.empty();
  options.preload = options.may_preload ? prepared.preload : "";
  options.preload_auto = prepared.preload_auto;
  options.no_preload = prepared.no_preload;
  if (const auto socket = KeptSocket(config); socket && config.keep_warm > Duration{0}) {
    options.keep = {config.keep_warm, *socket};
  }
  options.given = OwnKeptLaunch().preload;
  options.output.hostname = HostName();
  options.output.merge = config.merge_output ? config.workers : 0;
  options.discard_logs = config.DiscardsOutput();
  options.keep_logs = config.KeepsOutput() && !options.discard_logs;
  options.of_daemon = config.context.joins;
  if (options.of_daemon) {
    options.output.console_ranks.emplace();  // Its console is the daemon's, for ddprun's own lines.
  }
  options.followed = config.context.followed;
  options.host = WatchedHost();
  options.run_directory = directory.path();
  options.directory_stays = !directory.temporary();
  options.evidence = EvidencePlace(config.run_dir, directory);
  // Of any Python that a worker starts: a log that is read late hides what happens.
  options.environment.emplace("PYTHONUNBUFFERED", "1");
  options.environment.emplace("PYTHONFAULTHANDLER",
                              "1");  // Where a hung one stands is asked by it.
  options.store.options.allowed = config.store_allowed;
  return options;
}

}  // namespace ddprun

#include "launcher/command_line/host_flags.h"

#include <algorithm>

#include "common/text.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/given_file.h"
#include "rendezvous/messages/pool_messages.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxHostfile = 4 << 20;

// The launch itself sets them for each node.
constexpr const char* kOfOneNode[] = {"node-rank",   "standalone",  "local-addr",
                                      "master-addr", "master-port", "attach-rank"};

// Of a flag; empty: it is none of these.
std::string OriginOf(const LaunchConfig& config, const char* flag) {
  const auto found = std::ranges::find(config.settings, flag, &Setting::name);
  return found == config.settings.end() ? "" : found->origin;
}

Result<std::vector<LaunchHost>> HostsInFile(const std::string& name) {
  ASSIGN_OR_RETURN(const std::string text, ReadGiven(name, kMaxHostfile, {.say = SayWait}));
  return ParseHostfile(name, text);
}

void CheckCounts(const std::string& flag, const RawFlags& raw, const LaunchConfig& config,
                 Problems& problems) {
  const auto nodes = ParseNodes(raw.nnodes);  // A wrong value is reported elsewhere.
  const std::size_t hosts = config.hosts.size();
  if (nodes && nodes->first > hosts) {
    problems.Add("--nnodes=" + raw.nnodes + " needs " + std::to_string(nodes->first) +
                 " nodes, but " + flag + " names " + std::to_string(hosts) +
                 (hosts == 1 ? " host" : " hosts"));
  }
  if (nodes && nodes->second == 1 && hosts > 1) {
    problems.Add("--nnodes=" + raw.nnodes + " is for one node, but " + flag + " names " +
                 std::to_string(hosts) + " hosts");
  }
  const auto asked = ParseNumber<std::uint32_t>(raw.workers);
  for (const LaunchHost& host : config.hosts) {
    if (!host.workers && host.most_workers > 0 && asked && *asked > host.most_workers) {
      return problems.Add("--nproc-per-node=" + raw.workers + " is more than the max_slots=" +
                          std::to_string(host.most_workers) + " of host " + host.name);
    }
  }
}

}  // namespace

void ResolveHosts(RawFlags& raw, LaunchConfig& config, Problems& problems) {
  const bool listed = IsSet(config, "hosts");
  if (config.context.scheduler == Scheduler::kHosts) {
    return;
  }
  if (!listed && !IsSet(config, "hostfile")) {
    // A settings file or the environment may have them for other launches.
    for (const char* const flag : {"copy", "launch-agent"}) {
      if (OriginOf(config, flag) == kCommandLine) {
        problems.Add("--" + std::string(flag) + " needs --hosts or --hostfile");
      }
    }
    return;
  }
  if (listed && IsSet(config, "hostfile")) {
    return problems.Add("--hosts and --hostfile exclude each other");
  }
  const std::string flag = listed ? "--hosts" : "--hostfile";
  const auto hosts = listed ? ParseHosts(raw.hosts) : HostsInFile(raw.hostfile);
  problems.Check(flag, hosts);
  if (!hosts) {
    return;
  }
  config.hosts = *hosts;
  for (const char* const other : kOfOneNode) {
    if (IsSet(config, other)) {
      problems.Add("--" + std::string(other) + " excludes " + flag +
                   ", which places all nodes: leave it out");
    }
  }
  if (config.launch_agent.empty()) {
    problems.Add("--launch-agent names no command");
  }
  if (!IsSet(config, "nnodes")) {
    raw.nnodes = std::to_string(config.hosts.size());
  }
  CheckCounts(flag, raw, config, problems);
}

void ResolvePool(RawFlags& raw, LaunchConfig& config, Problems& problems) {
  if (config.context.joins) {
    return;
  }
  const bool here =
      OriginOf(config, "standalone") == kCommandLine && OriginOf(config, "pool") != kCommandLine;
  if (!IsSet(config, "pool") || raw.pool.empty() || here) {
    if (config.detach) {
      problems.Add("--detach needs --pool");
    }
    return;
  }
  for (const char* const flag : kOfOneNode) {
    if (IsSet(config, flag)) {
      problems.Add("--" + std::string(flag) +
                   " excludes --pool, whose daemons place all nodes: "
                   "leave it out");
    }
  }
  for (const char* const flag : {"hosts", "hostfile", "rdzv-endpoint", "run-dir"}) {
    if (IsSet(config, flag)) {
      problems.Add("--pool and --" + std::string(flag) + " exclude each other");
    }
  }
  if (config.insecure) {
    problems.Add("--pool and --insecure exclude each other: a pool has a token");
  }
  const Result<Endpoint> pool = ParseEndpoint(raw.pool, 29400);
  problems.Check("--pool", pool);
  if (pool) {
    config.pool = *pool;
    raw.endpoint = raw.pool;  // Whose token it is.
  }
  const auto nodes = ParseNodes(raw.nnodes);
  if (nodes && nodes->second > kMostDaemons) {
    problems.Add("--nnodes=" + raw.nnodes + " is more than the nodes that a pool's run may have: " +
                 std::to_string(kMostDaemons));
  }
}

}  // namespace ddprun

#include "launcher/command_line/cli_rendezvous.h"

#include <utility>

#include "launcher/command_line/removed.h"

namespace ddprun {
namespace {

// torchrun's static rendezvous: one address and port, known to all nodes beforehand, which is also
// the workers' MASTER_ADDR and MASTER_PORT.
void ResolveEndpoint(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  if (const Result<void> one = RefuseList(raw.endpoint); !one) {
    return problems.Add(one.error().message);
  }
  if (raw.backend == "static" && !raw.endpoint.empty() && !raw.standalone) {
    const Result<Endpoint> endpoint = ParseEndpoint(raw.endpoint, 29400);
    problems.Check("--rdzv-endpoint", endpoint);
    config.endpoint = endpoint ? *endpoint : config.endpoint;
    config.literal_master = config.endpoint.port != 0;
    return;
  }
  const bool is_static = raw.backend != "c10d" && raw.endpoint.empty();
  const bool named =
      !raw.master_port.empty() || (config.spec.max_nodes > 1 && !raw.master_addr.empty());
  if (is_static && !raw.standalone && named) {
    const std::string host = raw.master_addr.empty() ? "127.0.0.1" : raw.master_addr;
    const std::optional<std::uint32_t> port =
        raw.master_port.empty() ? 29500 : NotNegative(raw.master_port);
    if (!port || *port > 65535 || (*port == 0 && config.spec.max_nodes > 1)) {
      problems.Add("--master-port must be a port that every node knows, 1 to 65535: '" +
                   raw.master_port + "'");
      return;
    }
    config.literal_master = true;
    const bool bare_v6 = host.find(':') != std::string::npos && host.front() != '[';
    const Result<Endpoint> endpoint = bare_v6
                                          ? Endpoint{host, static_cast<std::uint16_t>(*port)}
                                          : ParseEndpoint(host, static_cast<std::uint16_t>(*port));
    problems.Check("--master-addr", endpoint);
    config.endpoint = endpoint ? *endpoint : config.endpoint;
    return;
  }
  const bool address_counts = raw.endpoint.empty() && !raw.standalone && config.spec.max_nodes > 1;
  for (const auto& [flag, value] :
       {std::pair("--master-addr", raw.master_addr), std::pair("--master-port", raw.master_port)}) {
    const bool counts = is_static || (flag == std::string("--master-addr") && address_counts);
    if (!value.empty() && (!counts || raw.standalone)) {
      config.warnings.push_back("ignoring " + std::string(flag) + "=" + value + " because " +
                                (raw.standalone          ? "--standalone needs no address"
                                 : !raw.endpoint.empty() ? "--rdzv-endpoint is set"
                                                         : "only --rdzv-backend=static uses it"));
    }
  }
  const std::string where = !raw.endpoint.empty() ? raw.endpoint : raw.master_addr;
  if (!where.empty()) {
    const Result<Endpoint> endpoint = ParseEndpoint(where, 29400);
    problems.Check(raw.endpoint.empty() ? "--master-addr" : "--rdzv-endpoint", endpoint);
    config.endpoint = endpoint ? *endpoint : config.endpoint;
  }
}

// A run that can continue without one of its nodes must also continue without the first one.
void TakeSharedDirectory(LaunchConfig& config) {
  const bool spare = config.spec.min_nodes < config.spec.max_nodes ||
                     config.context.hosts.size() > config.spec.max_nodes;
  const bool any_may_serve = !config.tls.any() || !config.tls.certificate.empty();
  if (!config.standalone && !config.literal_master && spare && any_may_serve) {
    config.run_dir = config.context.shared;
    config.own_run_dir = !config.run_dir.empty();
  }
}

void ResolveRunDirectory(LaunchConfig& config, Problems& problems) {
  if (config.run_dir.empty()) {
    TakeSharedDirectory(config);
    return;
  }
  if (config.run_dir == "none") {
    config.run_dir.clear();
    return;
  }
  if (config.standalone) {
    config.run_dir.clear();
    config.warnings.push_back(
        "ignoring --run-dir: a run of one node has no other node that could take over");
  } else if (config.literal_master) {
    problems.Add(
        "--run-dir excludes a static rendezvous (--master-addr, --master-port, "
        "--rdzv-backend=static): the workers' store could not move to another host with the "
        "server. Set --rdzv-endpoint instead");
  }
}

}  // namespace

void ResolveRendezvous(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  config.standalone =
      (config.spec.max_nodes == 1 && !config.context.joins && !config.pool) || raw.standalone;
  if (raw.standalone && config.spec.max_nodes > 1) {
    problems.Add("--standalone is for one node, but --nnodes=" + raw.nnodes);
  }
  ResolveEndpoint(raw, config, problems);
  // With srun before it, or on the hosts that it names, the launch finds the address.
  const bool elsewhere = StartsElsewhere(config) || !config.context.launcher.empty();
  if (config.spec.max_nodes > 1 && raw.endpoint.empty() && raw.master_addr.empty() && !elsewhere) {
    config.warnings.push_back("--nnodes=" + raw.nnodes +
                              " without --rdzv-endpoint: " + config.endpoint.host +
                              " is this machine only. Set --rdzv-endpoint=HOST:PORT on all nodes");
  }
  if (!raw.node_rank.empty()) {
    config.node_rank = NotNegative(raw.node_rank);
    if (!config.node_rank || *config.node_rank >= config.spec.max_nodes) {
      const std::string most = std::to_string(config.spec.max_nodes - 1);
      problems.Add("--node-rank must be " +
                   (config.spec.max_nodes == 1
                        ? "0 with --nnodes=1, its default"
                        : "from 0 to " + most + " with --nnodes=" + raw.nnodes) +
                   ": '" + raw.node_rank + "'");
    }
  } else if (config.literal_master && !config.standalone) {
    config.node_rank = 0;  // As torchrun: the node whose address is named may leave it out.
  }
  config.run_id = config.standalone && raw.run_id == kUnnamedRun ? "" : raw.run_id;
  ResolveRunDirectory(config, problems);
  if (config.tls.certificate.empty() != config.tls.key.empty()) {
    problems.Add("--tls-cert and --tls-key go together");
  } else if (!config.tls.certificate.empty() && config.tls.authority.empty()) {
    problems.Add(
        "--tls-cert needs --tls-ca, which the nodes use to check each other's certificates");
  } else if (config.tls.any() && config.tls.certificate.empty() && HasFailover(config)) {
    problems.Add(
        "--tls-ca needs --tls-cert with --run-dir, because any node may have to host the server");
  }
}

}  // namespace ddprun

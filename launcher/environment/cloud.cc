// Kubernetes' indexed jobs, Kubeflow's PyTorchJob, SageMaker.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/json.h"
#include "common/text.h"
#include "launcher/environment/reading.h"

namespace ddprun {
namespace {

constexpr std::uint16_t kPort = 29'400;  // A pod's ports are its own.
constexpr const char* kResourceConfig = "/opt/ml/input/config/resourceconfig.json";

std::string Line(const LaunchContext& context, const Place& place) {
  return context.name + ": node " + std::to_string(place.index) + " of " +
         std::to_string(place.count) + (context.node.empty() ? "" : ", " + context.node);
}

// The name with a domain that this host has in /etc/hosts, where its kubelet wrote it.
std::string LongName(const ContextQuery& query, const std::string& host) {
  const Result<std::string> hosts = query.read_file("/etc/hosts");
  for (const std::string& line : Split(hosts ? *hosts : "", '\n')) {
    std::stringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) {
      if (word.starts_with(host + ".")) {
        return word;
      }
    }
  }
  return "";
}

}  // namespace

Result<std::optional<LaunchContext>> ReadPyTorchJob(const ContextQuery& query) {
  // Of a worker, RANK counts processes, and LOCAL_RANK stands beside it.
  if (!Text(query, "RANK") || !Text(query, "WORLD_SIZE") || !Text(query, "MASTER_ADDR") ||
      Text(query, "LOCAL_RANK")) {
    return std::optional<LaunchContext>();
  }
  LaunchContext context{.scheduler = Scheduler::kPyTorchJob, .name = "PyTorchJob"};
  Place place{.port = kPort,
              .run_id = "pytorchjob",
              .count_origin = "WORLD_SIZE, of nodes",
              .index_origin = "RANK, of nodes",
              .host_origin = "MASTER_ADDR, MASTER_PORT",
              .run_origin = "PyTorchJob"};
  ASSIGN_OR_RETURN(place.count, CountOf(query, "WORLD_SIZE", "RANK"));
  ASSIGN_OR_RETURN(place.index, CountOf(query, "RANK", "WORLD_SIZE"));
  ASSIGN_OR_RETURN(const auto port, Count(query, "MASTER_PORT"));
  if (place.index >= place.count || port.value_or(1) == 0 || port.value_or(1) > 65'535) {
    return Invalid("RANK must be below WORLD_SIZE, and MASTER_PORT a port",
                   std::to_string(place.index) + " of " + std::to_string(place.count));
  }
  place.host = *Text(query, "MASTER_ADDR");
  place.port = static_cast<std::uint16_t>(port.value_or(kPort));
  context.settings.push_back(WorkersByGpus(query));
  if (const auto workers = Text(query, "NPROC_PER_NODE")) {
    context.settings.back() = {"nproc-per-node", *workers, "NPROC_PER_NODE"};
  }
  SetPlace(query, place, context);
  context.line = Line(context, place);
  return std::optional(std::move(context));
}

Result<std::optional<LaunchContext>> ReadKubernetes(const ContextQuery& query) {
  ASSIGN_OR_RETURN(const auto index, Count(query, "JOB_COMPLETION_INDEX"));
  if (!index) {
    return std::optional<LaunchContext>();
  }
  LaunchContext context{.scheduler = Scheduler::kKubernetes, .name = "Kubernetes indexed job"};
  context.tells_before_end = true;
  context.ends_nodes_alone = true;  // One pod is evicted, or all: the same TERM.
  if (query.only_facts) {
    return std::optional(std::move(context));
  }
  context.node = Text(query, "HOSTNAME").value_or("");
  const std::string ending = "-" + std::to_string(*index);
  const std::string nodes = ValueOf(query.said, "nnodes").value_or("");
  const std::size_t colon = nodes.find(':');
  const std::string most = colon == std::string::npos ? nodes : nodes.substr(colon + 1);
  Place place{.count = ParseNumber<std::uint32_t>(most).value_or(0),
              .index = *index,
              .port = kPort,
              .count_origin = "--nnodes",
              .index_origin = "JOB_COMPLETION_INDEX",
              .host_origin = "this pod's name in /etc/hosts",
              .run_origin = "HOSTNAME"};
  const std::string name = LongName(query, context.node);
  if (place.count == 0 || !context.node.ends_with(ending) || (place.count > 1 && name.empty()) ||
      place.index >= place.count) {
    return Error{ErrorKind::kInvalid,
                 "this is pod " + std::to_string(*index) +
                     " of an indexed job of Kubernetes, but the number of pods is unknown. Set "
                     "--nnodes=<completions>. If the pods have no subdomain (a headless service), "
                     "also set --rdzv-endpoint=<host of pod 0>:29400 and --node-rank"};
  }
  const std::string job = context.node.substr(0, context.node.size() - ending.size());
  place.run_id = job;
  place.host = job + "-0" + name.substr(std::min(context.node.size(), name.size()));
  context.settings.push_back(WorkersByGpus(query));
  SetPlace(query, place, context);
  context.line = Line(context, place);
  return std::optional(std::move(context));
}

Result<std::optional<LaunchContext>> ReadSageMaker(const ContextQuery& query) {
  const auto list = Text(query, "SM_HOSTS");
  std::string current = Text(query, "SM_CURRENT_HOST").value_or("");
  std::string interface = Text(query, "SM_NETWORK_INTERFACE_NAME").value_or("");
  std::string origin = "SM_HOSTS";
  nlohmann::json hosts;
  if (list) {
    hosts = ParseJson(*list);
  } else {
    const Result<std::string> file = query.read_file(kResourceConfig);
    if (!file) {
      return std::optional<LaunchContext>();
    }
    const auto config = ParseJson(*file);
    if (config.is_object()) {
      hosts = config.value("hosts", nlohmann::json());
      current = TextIn(config, "current_host");
      interface = TextIn(config, "network_interface_name");
    }
    origin = kResourceConfig;
  }
  LaunchContext context{.scheduler = Scheduler::kSageMaker, .name = "SageMaker"};
  for (const nlohmann::json& host : hosts.is_array() ? hosts : nlohmann::json::array()) {
    if (host.is_string()) {
      context.hosts.push_back(host.get<std::string>());
    }
  }
  std::sort(context.hosts.begin(), context.hosts.end());
  const auto own = std::find(context.hosts.begin(), context.hosts.end(), current);
  if (own == context.hosts.end()) {
    return Invalid(origin + " does not name this host", current);
  }
  context.node = current;
  const Place place{.count = static_cast<std::uint32_t>(context.hosts.size()),
                    .index = static_cast<std::uint32_t>(own - context.hosts.begin()),
                    .host = context.hosts.front(),
                    .port = kPort,
                    .run_id = Text(query, "TRAINING_JOB_NAME").value_or("sagemaker"),
                    .count_origin = origin,
                    .index_origin = origin,
                    .host_origin = origin,
                    .run_origin = "TRAINING_JOB_NAME"};
  context.settings.push_back(WorkersByGpus(query));
  if (!interface.empty() && place.count > 1) {
    context.settings.push_back({"interface", interface, "SM_NETWORK_INTERFACE_NAME"});
  }
  SetPlace(query, place, context);
  context.tells_before_end = true;
  context.line = Line(context, place);
  return std::optional(std::move(context));
}

}  // namespace ddprun

#include "launcher/environment/reading.h"

#include <algorithm>
#include <sstream>
#include <unordered_set>

#include "common/endpoint.h"
#include "common/text.h"
#include "proto/hostlist.h"

namespace ddprun {

std::optional<std::string> Text(const ContextQuery& query, const std::string& name) {
  std::optional<std::string> text = query.get_env(name);
  return text && text->empty() ? std::nullopt : text;
}

Result<std::optional<std::uint32_t>> Count(const ContextQuery& query, const std::string& name) {
  const std::optional<std::string> text = Text(query, name);
  if (!text) {
    return std::optional<std::uint32_t>();
  }
  const auto value = ParseNumber<std::uint32_t>(*text);
  if (!value) {
    return Invalid("the environment variable " + name + " must be a number", *text);
  }
  return value;
}

Result<std::uint32_t> CountOf(const ContextQuery& query, const std::string& name,
                              const std::string& because) {
  ASSIGN_OR_RETURN(const std::optional<std::uint32_t> value, Count(query, name));
  if (!value) {
    return Error{ErrorKind::kInvalid,
                 "the environment variable " + name + " is missing, although " + because +
                     " is set. Set --nnodes, --node-rank and --rdzv-endpoint instead"};
  }
  return *value;
}

std::vector<std::string> Unique(const std::vector<std::string>& names) {
  std::unordered_set<std::string> seen;
  std::vector<std::string> unique;
  std::copy_if(names.begin(), names.end(), std::back_inserter(unique),
               [&](const std::string& name) { return seen.insert(name).second; });
  return unique;
}

Result<std::vector<std::string>> ReadHosts(const ContextQuery& query, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, query.read_file(path));
  std::vector<std::string> hosts;
  for (const std::string& line : Split(text, '\n')) {
    std::stringstream words(line);
    std::string host;
    if (words >> host && host.size() <= kMaxHostName && hosts.size() < kMaxHosts) {
      hosts.push_back(host);
    }
  }
  return hosts;
}

namespace {

std::uint32_t Items(const std::string& list) {
  return static_cast<std::uint32_t>(std::count(list.begin(), list.end(), ',')) + 1;
}

}  // namespace

Setting WorkersByGpus(const ContextQuery& query) {
  const auto set = [](std::uint32_t count, const std::string& origin) {
    return Setting{"nproc-per-node", std::to_string(std::max(1u, count)), origin};
  };
  if (const auto chosen = ValueOf(query.said, "gpu-ids"); chosen && !chosen->empty()) {
    return Setting{"nproc-per-node", "gpu", "--gpu-ids"};
  }
  if (const auto list = query.get_env("CUDA_VISIBLE_DEVICES")) {
    const bool none = list->empty() || *list == "NoDevFiles" || list->front() == '-';
    return set(none ? 1 : Items(*list), "CUDA_VISIBLE_DEVICES");
  }
  if (const auto list = Text(query, "SLURM_STEP_GPUS")) {
    return set(Items(*list), "SLURM_STEP_GPUS");
  }
  for (const char* name : {"SLURM_GPUS_ON_NODE", "SM_NUM_GPUS"}) {
    if (const auto count = Count(query, name); count && *count) {
      return set(**count, name);
    }
  }
  return query.gpus > 0 ? set(query.gpus, "GPUs of this machine")
                        : set(1, "no GPU is visible: default");
}

void SetPlace(const ContextQuery& query, const Place& place, LaunchContext& context) {
  context.index = place.index;
  const std::string count = std::to_string(place.count);
  context.settings.push_back({"nnodes", count, place.count_origin});
  context.settings.push_back({"rdzv-id", place.run_id, place.run_origin});
  if (place.count == 1) {
    return;
  }
  const std::string nodes = ValueOf(query.said, "nnodes").value_or(count);
  if (nodes == count || nodes == count + ":" + count) {  // Else ranks follow the nodes' names.
    context.settings.push_back({"node-rank", std::to_string(place.index), place.index_origin});
  }
  context.settings.push_back(
      {"rdzv-endpoint", ToString(Endpoint{place.host, place.port}), place.host_origin});
}

}  // namespace ddprun

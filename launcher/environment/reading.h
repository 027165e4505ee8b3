// Functions that the readers of single schedulers share. For launcher/environment alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/environment/launch_context.h"
#include "proto/job_port.h"

namespace ddprun {

// A variable that is set and not empty.
std::optional<std::string> Text(const ContextQuery& query, const std::string& name);
// One that is a number; kInvalid where it is set to anything else.
Result<std::optional<std::uint32_t>> Count(const ContextQuery& query, const std::string& name);
// One that must be there.
Result<std::uint32_t> CountOf(const ContextQuery& query, const std::string& name,
                              const std::string& because);

// Each name once, in the order in which it first comes.
std::vector<std::string> Unique(const std::vector<std::string>& names);

// The lines of a file of hosts, without what stands behind the name.
Result<std::vector<std::string>> ReadHosts(const ContextQuery& query, const std::string& path);

// Workers per node if the user does not say: one per GPU that this node has or was given, else 1.
Setting WorkersByGpus(const ContextQuery& query);

// A node's place: how many there are, which one this is, where they meet, the run's name, and which
// variable says so.
struct Place {
  std::uint32_t count = 1;
  std::uint32_t index = 0;
  std::string host;  // Of index 0.
  std::uint16_t port = 0;
  std::string run_id;
  std::string count_origin;
  std::string index_origin;
  std::string host_origin;
  std::string run_origin;
};

// The settings that follow. No rank is fixed where nodes may be missing or left over
// (--nnodes=MIN:MAX).
void SetPlace(const ContextQuery& query, const Place& place, LaunchContext& context);

// Of each scheduler; nullopt: it is not this one.
Result<std::optional<LaunchContext>> ReadSlurm(const ContextQuery& query);
Result<std::optional<LaunchContext>> ReadSlurmBatch(const ContextQuery& query);
Result<std::optional<LaunchContext>> ReadMpi(const ContextQuery& query);
Result<std::optional<LaunchContext>> ReadPyTorchJob(const ContextQuery& query);
Result<std::optional<LaunchContext>> ReadKubernetes(const ContextQuery& query);
Result<std::optional<LaunchContext>> ReadSageMaker(const ContextQuery& query);

}  // namespace ddprun

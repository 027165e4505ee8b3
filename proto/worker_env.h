// The environment contract between agent and worker: torchrun's names, and DDPRUN_* beside them.
//
// WorkerEnv is what the agent promises; ToEnvironment writes it, FromEnvironment (the trainer's
// side) reads it back and names every variable that is missing or malformed. Reads the process
// environment nowhere else than through the `get` it is given.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/endpoint.h"
#include "common/ids.h"
#include "common/result.h"

namespace ddprun {

struct WorkerEnv {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t local_world_size = 1;
  std::uint32_t group_rank = 0;        // The node's place among the nodes of the world.
  std::uint32_t group_world_size = 1;  // Nodes in the world.
  std::string role_name = "default";
  std::uint32_t role_rank = 0;
  std::uint32_t role_world_size = 1;
  Endpoint master;  // The generation's store; every worker is a client of it.
  std::uint32_t restart_count = 0;
  std::uint32_t max_restarts = 0;
  RunId run_id;
  std::string error_file;  // TORCHELASTIC_ERROR_FILE; may be empty.
  Term term;               // DDPRUN_TERM: with generation, orders worlds.
  Generation generation;   // DDPRUN_GENERATION
  WorldId world_id;        // DDPRUN_WORLD_ID, 16 hexadecimal digits
  // DDPRUN_NOTIFY_SOCKET; empty: no agent listens.
  std::string notify_socket;
  std::string life_lock;     // DDPRUN_LIFE_LOCK (life_lock.h); empty: it has none.
  bool hosts_store = false;  // No agent does, and this is rank 0.
};

// Name -> value, to be laid over the agent's own environment.
std::map<std::string, std::string> ToEnvironment(const WorkerEnv& env);

using GetEnv = std::function<std::optional<std::string>(const std::string& name)>;

// The process's own environment.
std::optional<std::string> GetProcessEnv(const std::string& name);

// The worker's side. RANK absent: a task of srun or mpirun (task_env.h), else a lone process, rank
// 0 of 1 without a store (master.host empty). Started by plain torchrun the DDPRUN_* are absent:
// term and world id 0, generation = TORCHELASTIC_RESTART_COUNT + 1.
Result<WorkerEnv> FromEnvironment(const GetEnv& get);

}  // namespace ddprun

#include "proto/worker_env.h"

#include <charconv>
#include <cstdlib>

#include "proto/life_lock.h"
#include "proto/task_env.h"

namespace ddprun {
namespace {

template <class T>
Result<T> ReadNumber(const GetEnv& get, const std::string& name, std::optional<T> fallback,
                     int base) {
  const std::optional<std::string> text = get(name);
  if (!text || text->empty()) {
    if (fallback) {
      return *fallback;
    }
    return Error{ErrorKind::kInvalid, "the environment variable " + name +
                                          " is missing (RANK is set, so the launcher should have "
                                          "set it too)"};
  }
  T value{};
  const char* const end = text->data() + text->size();
  const auto [parsed, error] = std::from_chars(text->data(), end, value, base);
  if (error != std::errc{} || parsed != end) {
    return Invalid("the environment variable " + name + " must be a number", *text);
  }
  return value;
}

}  // namespace

std::map<std::string, std::string> ToEnvironment(const WorkerEnv& env) {
  return {
      {"RANK", std::to_string(env.rank)},
      {"LOCAL_RANK", std::to_string(env.local_rank)},
      {"WORLD_SIZE", std::to_string(env.world_size)},
      {"LOCAL_WORLD_SIZE", std::to_string(env.local_world_size)},
      {"GROUP_RANK", std::to_string(env.group_rank)},
      {"GROUP_WORLD_SIZE", std::to_string(env.group_world_size)},
      {"ROLE_NAME", env.role_name},
      {"ROLE_RANK", std::to_string(env.role_rank)},
      {"ROLE_WORLD_SIZE", std::to_string(env.role_world_size)},
      {"MASTER_ADDR", env.master.host},
      {"MASTER_PORT", std::to_string(env.master.port)},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(env.restart_count)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(env.max_restarts)},
      {"TORCHELASTIC_RUN_ID", env.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_ERROR_FILE", env.error_file},
      {"DDPRUN_TERM", std::to_string(env.term.value)},
      {"DDPRUN_GENERATION", std::to_string(env.generation.value)},
      {"DDPRUN_WORLD_ID", Hex(env.world_id.value)},
      {"DDPRUN_NOTIFY_SOCKET", env.notify_socket},
      {kLifeLockVariable, env.life_lock},
  };
}

std::optional<std::string> GetProcessEnv(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<WorkerEnv> FromEnvironment(const GetEnv& get) {
  WorkerEnv env;
  const auto text = [&](const char* name, const char* fallback) {
    return get(name).value_or(fallback);
  };
  if (const auto rank = get("RANK"); !rank || rank->empty()) {
    ASSIGN_OR_RETURN(const std::optional<WorkerEnv> task, FromTask(get));
    return task.value_or(env);
  }
  using U32 = std::uint32_t;
  using U64 = std::uint64_t;
  ASSIGN_OR_RETURN(env.rank, ReadNumber<U32>(get, "RANK", {}, 10));
  ASSIGN_OR_RETURN(env.world_size, ReadNumber<U32>(get, "WORLD_SIZE", {}, 10));
  ASSIGN_OR_RETURN(env.local_rank, ReadNumber<U32>(get, "LOCAL_RANK", env.rank, 10));
  ASSIGN_OR_RETURN(env.local_world_size,
                   ReadNumber<U32>(get, "LOCAL_WORLD_SIZE", env.world_size, 10));
  ASSIGN_OR_RETURN(env.group_rank, ReadNumber<U32>(get, "GROUP_RANK", 0, 10));
  ASSIGN_OR_RETURN(env.group_world_size, ReadNumber<U32>(get, "GROUP_WORLD_SIZE", 1, 10));
  ASSIGN_OR_RETURN(env.role_rank, ReadNumber<U32>(get, "ROLE_RANK", env.rank, 10));
  ASSIGN_OR_RETURN(env.role_world_size,
                   ReadNumber<U32>(get, "ROLE_WORLD_SIZE", env.world_size, 10));
  env.role_name = text("ROLE_NAME", "default");
  env.master.host = text("MASTER_ADDR", "127.0.0.1");
  ASSIGN_OR_RETURN(env.master.port, ReadNumber<std::uint16_t>(get, "MASTER_PORT", {}, 10));
  ASSIGN_OR_RETURN(env.restart_count, ReadNumber<U32>(get, "TORCHELASTIC_RESTART_COUNT", 0, 10));
  ASSIGN_OR_RETURN(env.max_restarts, ReadNumber<U32>(get, "TORCHELASTIC_MAX_RESTARTS", 0, 10));
  env.run_id = text("TORCHELASTIC_RUN_ID", "none");
  env.error_file = text("TORCHELASTIC_ERROR_FILE", "");
  ASSIGN_OR_RETURN(env.term.value, ReadNumber<U64>(get, "DDPRUN_TERM", U64{0}, 10));
  ASSIGN_OR_RETURN(env.generation.value,
                   ReadNumber<U64>(get, "DDPRUN_GENERATION", U64{env.restart_count} + 1, 10));
  ASSIGN_OR_RETURN(env.world_id.value, ReadNumber<U64>(get, "DDPRUN_WORLD_ID", U64{0}, 16));
  env.notify_socket = text("DDPRUN_NOTIFY_SOCKET", "");
  if (env.world_size == 0 || env.rank >= env.world_size) {
    return Invalid("RANK must be below WORLD_SIZE",
                   std::to_string(env.rank) + " of " + std::to_string(env.world_size));
  }
  if (env.local_world_size == 0 || env.local_rank >= env.local_world_size) {
    return Invalid("LOCAL_RANK must be below LOCAL_WORLD_SIZE",
                   std::to_string(env.local_rank) + " of " + std::to_string(env.local_world_size));
  }
  return env;
}

}  // namespace ddprun

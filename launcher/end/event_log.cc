#include "launcher/end/event_log.h"

#include "launcher/status_json.h"

namespace ddprun {
namespace {

using Json = OrderedJson;

Json Event(const LaunchConfig& config, const std::string& host, const std::string& state,
           const std::string& source, std::chrono::system_clock::time_point now) {
  return {
      {"name", "torchelastic.worker.status." + state},
      {"source", source},
      {"timestamp", std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch()).count()},
      {"metadata",
       {{"run_id", config.run_id},
        {"global_rank", nullptr},
        {"group_rank", nullptr},
        {"worker_id", nullptr},
        {"role", config.role},
        {"hostname", host},
        {"state", state},
        {"total_run_time", 0},
        {"rdzv_backend", ValueOf(config.settings, "rdzv-backend").value_or("")},
        {"raw_error", nullptr},
        {"metadata", ""},
        {"agent_restarts", 0},
        {"duration_ms", nullptr}}}};
}

}  // namespace

std::string WorkerEvent(const LaunchConfig& config, const std::string& host, const WorkerNews& news,
                        std::chrono::system_clock::time_point now) {
  const Placement& placement = news.placement;
  const std::string state = !news.ended ? "START" : Succeeded(*news.ended) ? "SUCCEEDED" : "FAILED";
  Json event = Event(config, host, state, "WORKER", now);
  Json& metadata = event["metadata"];
  metadata["global_rank"] = placement.first_rank + news.local_rank;
  metadata["group_rank"] = placement.group_rank;
  metadata["worker_id"] = std::to_string(news.pid);
  metadata["agent_restarts"] = placement.restarts_used;
  const auto* const killed = news.ended ? std::get_if<Killed>(&*news.ended) : nullptr;
  const Json code = !news.ended ? Json(nullptr)
                    : killed    ? Json(-killed->signal)  // As Python has it.
                                : Json(std::get<Exited>(*news.ended).code);
  // torchrun's is text that is JSON once more.
  metadata["metadata"] = JsonText({{"group_world_size", placement.group_size},
                                   {"entry_point", config.program},
                                   {"local_rank", {news.local_rank}},
                                   {"role_rank", {placement.role_first_rank + news.local_rank}},
                                   {"role_world_size", {placement.role_world_size}},
                                   {"exit_code", Json::array({code})},
                                   {"worker_pid", {news.pid}}});
  return JsonText(event);
}

std::string EndEvent(const LaunchConfig& config, const std::string& host, bool succeeded,
                     std::uint32_t restarts, std::chrono::system_clock::time_point now) {
  Json event = Event(config, host, succeeded ? "SUCCEEDED" : "FAILED", "AGENT", now);
  event["metadata"]["agent_restarts"] = restarts;
  event["metadata"]["metadata"] = JsonText({{"entry_point", config.program}});
  return JsonText(event);
}

}  // namespace ddprun

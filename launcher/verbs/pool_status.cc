#include "launcher/verbs/pool_status.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/text.h"
#include "launcher/print_out.h"
#include "launcher/status_json.h"
#include "rendezvous/client_pool.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

constexpr Duration kPoolPatience{5'000};

std::string NodesOf(const PoolQueued& run) {
  const std::string most = std::to_string(run.max_nodes);
  return run.min_nodes == run.max_nodes ? most : std::to_string(run.min_nodes) + ":" + most;
}

std::string PoolText(const PoolStatus& pool, const std::string& where) {
  const auto free = std::ranges::count(pool.members, "free", &PoolMember::state);
  std::string text = "pool at " + where + ": " +
                     CountOf(static_cast<std::uint32_t>(pool.members.size()), "daemon") + ", " +
                     std::to_string(free) + " free\n";
  std::vector<std::vector<std::string>> rows;
  for (const PoolMember& member : pool.members) {
    rows.push_back({member.name, PrintableLine(member.facts),
                    Shortened(PrintableLine(member.state), kMostOfCell)});
  }
  text += AlignedRows(std::move(rows), "  ");
  if (!pool.runs.empty()) {
    text += "runs\n";
    rows.clear();
    for (const PoolQueued& run : pool.runs) {
      rows.push_back({run.run_id, "--nnodes=" + NodesOf(run), PrintableLine(run.state)});
    }
    text += AlignedRows(std::move(rows), "  ");
  }
  return text;
}

std::string PoolJson(const PoolStatus& pool, const std::string& where) {
  OrderedJson json;
  json["pool"] = where;
  json["daemons"] = OrderedJson::array();
  for (const PoolMember& member : pool.members) {
    json["daemons"].push_back(
        {{"name", member.name}, {"has", member.facts}, {"state", member.state}});
  }
  json["runs"] = OrderedJson::array();
  for (const PoolQueued& run : pool.runs) {
    json["runs"].push_back({{"run_id", run.run_id},
                            {"min_nodes", run.min_nodes},
                            {"max_nodes", run.max_nodes},
                            {"state", run.state}});
  }
  return JsonText(json, 2) + "\n";
}

}  // namespace

bool AsksForPool(const ServerQuery& query) {
  return !query.pool.empty() && query.run_id.empty();
}

std::optional<PoolQueued> QueuedRun(const ServerPlace& place, const RunId& run_id) {
  const Result<PoolStatus> pool = AskPool(place.endpoint, place.access, kPoolPatience);
  if (!pool) {
    return std::nullopt;
  }
  const auto run = std::ranges::find(pool->runs, run_id, &PoolQueued::run_id);
  return run == pool->runs.end() ? std::nullopt : std::optional(*run);
}

std::string QueuedText(const PoolQueued& run, const ServerPlace& place, bool json) {
  return json ? PoolJson({.members = {}, .runs = {run}}, ToString(place.endpoint))
              : "run " + PrintableLine(run.run_id + " " + run.state) + "\n";
}

Result<std::string> PoolNow(const ServerQuery& server, bool json) {
  ASSIGN_OR_RETURN(const ServerPlace place, FindServer(server));
  ASSIGN_OR_RETURN(const PoolStatus pool, AskPool(place.endpoint, place.access, kPoolPatience));
  const std::string where = ToString(place.endpoint);
  return json ? PoolJson(pool, where) : PoolText(pool, where);
}

}  // namespace ddprun

#include "launcher/evidence/run_page.h"

#include <utility>

#include "common/files.h"
#include "common/json.h"
#include "launcher/watching/page.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostPage = std::size_t{64} << 20;  // Of another server's.

}  // namespace

std::string RunPage(const RunOverview& overview) {
  OrderedJson run = StateInJson(overview);
  OrderedJson all;
  all["events"] = OrderedJson::array();
  for (const RunEvent& event : overview.events) {
    all["events"].push_back(EventInJson(event));
  }
  all["training"] = std::move(run["training"]);
  run.erase("events");
  run.erase("training");
  all["unix_time"] = run["unix_time"];
  all["state"] = {{"version", run["version"]}, {"node", run["node"]}};
  all["state"]["run"] = std::move(run);
  return PageWith(JsonText(all));
}

OrderedJson RunInReport(const std::filesystem::path& file) {
  const Result<std::string> page = ReadOrdinary(file, kMostPage);
  const auto all = page ? ParseJson<OrderedJson>(DataOfPage(*page)) : OrderedJson();
  const OrderedJson::json_pointer place("/state/run");
  return all.is_object() && all.contains(place) && all[place].is_object() ? all[place]
                                                                          : OrderedJson::object();
}

}  // namespace ddprun

#include "launcher/status_json.h"

#include "launcher/headline.h"
#include "rendezvous/stragglers.h"

namespace ddprun {
namespace {

using Json = OrderedJson;

double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

Json InJson(Duration value) {
  return Seconds(value);
}
Json InJson(Incarnation value) {
  return Hex(value.value);
}
Json InJson(Term value) {
  return value.value;
}
Json InJson(std::optional<Duration> value) {
  return value ? Json(Seconds(*value)) : Json(nullptr);
}
Json InJson(Generation value) {
  return value.value;
}
Json InJson(UnixTime value) {
  return static_cast<double>(value.ms) / 1000.0;
}
template <class T>
Json InJson(const T& value) {
  return value;
}

template <class Table, class Status>
Json FieldsInJson(const Table& table, const Status& status) {
  Json json;
  ForEach(table, [&](const auto& row) { json[row.json] = InJson(status.*row.member); });
  return json;
}

Json IfKnown(std::chrono::microseconds took) {
  return took.count() == 0 ? Json(nullptr) : Json(std::chrono::duration<double>(took).count());
}

// Columns: a value for each rank in each.
Json InJson(const RankDetails& details) {
  Json json{{"state", Json::array()},         {"step", Json::array()},
            {"since_seconds", Json::array()}, {"step_seconds", Json::array()},
            {"work_seconds", Json::array()},  {"phase", Json::array()}};
  for (const RankDetail& rank : details.ranks) {
    json["state"].push_back(WordOf(rank.state));
    json["step"].push_back(rank.step);
    json["since_seconds"].push_back(Seconds(rank.since));
    json["step_seconds"].push_back(IfKnown(rank.step_time));
    json["work_seconds"].push_back(IfKnown(rank.work));
    json["phase"].push_back(PhaseOf(details, rank));
  }
  return json;
}

Json InJson(const TrainingPoint& point) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"step", point.step},
          {"loss", or_null(point.loss)},
          {"samples_per_s", or_null(point.samples_per_s)},
          {"checkpoint", or_null(point.checkpoint)}};
}

Json InJson(const NodeStatus& node) {
  Json json = FieldsInJson(kNodeStatusFields, node);
  json["facts"] = Json::array();
  for (const HostFact& fact : node.facts) {
    json["facts"].push_back({{"name", fact.name}, {"value", fact.value}, {"bad", fact.bad}});
  }
  json["ranks"] = InJson(node.rank_details);
  if (!node.in_world) {
    json["first_rank"] = nullptr;
  }
  return json;
}

const char* WordOf(NoticeLevel level) {
  return level == NoticeLevel::kDetail ? "detail"
         : level == NoticeLevel::kInfo ? "info"
                                       : "warning";
}

}  // namespace

OrderedJson EventInJson(const RunEvent& event) {
  Json json = FieldsInJson(kRunEventFields, event);
  json.erase("age_seconds");
  for (auto field = json.begin(); field != json.end();) {
    const bool no_text = field->is_string() && field->get_ref<const std::string&>().empty();
    const bool absent = *field == nullptr || no_text || *field == 0.0;
    const bool told =
        field.key() == "lost_seconds" && event.kind == kEventRecovered && event.first_step;
    field = absent && !told ? json.erase(field) : std::next(field);
  }
  json["level"] = WordOf(event.level);
  return json;
}

OrderedJson TrainingInJson(const std::vector<TrainingPoint>& training) {
  Json points = Json::array();
  for (const TrainingPoint& point : training) {
    points.push_back(InJson(point));
  }
  return points;
}

OrderedJson RunInJson(const RunStatus& run, std::int64_t now_unix) {
  Json json = FieldsInJson(kRunStatusFields, run);
  json["job_seconds_left"] = run.job_ends_unix > 0 ? Json(run.job_ends_unix - now_unix) : nullptr;
  if (run.outcome.empty()) {
    json["exit_code"] = nullptr;
  }
  json["nodes"] = Json::array();
  for (const NodeStatus& node : run.nodes) {
    json["nodes"].push_back(InJson(node));
  }
  json["more_nodes"] = run.more_nodes;
  const RunHeadline headline = HeadlineOf(run);
  const auto or_null = [](bool known, auto value) { return known ? Json(value) : Json(nullptr); };
  const std::optional<double> goodput = GoodputOf(run);
  json["headline"] = headline.text;
  json["headline_is_bad"] = headline.bad;
  json["step"] = LowestStep(run);
  json["usual_step_seconds"] = or_null(UsualStep(run) > 0, UsualStep(run));
  const Stragglers slow = StragglersOf(run);
  json["usual_work_seconds"] = IfKnown(slow.usual);
  json["slow_ranks"] = Json::array();
  for (const Straggler& one : slow.named) {
    json["slow_ranks"].push_back(
        {{"rank", one.rank}, {"node", one.node}, {"work_seconds", IfKnown(one.work)}});
  }
  json["more_slow_ranks"] = slow.count - slow.named.size();
  json["losing_seconds"] = Seconds(LosingNow(run));
  json["goodput"] = or_null(goodput.has_value(), goodput.value_or(0));
  json["training"] = TrainingInJson(run.training);
  json["startups"] = Json::array();
  for (const Startup& startup : run.startups) {
    json["startups"].push_back(FieldsInJson(kStartupFields, startup));
  }
  json["causes"] = Json::array();
  for (const CauseTotal& total : run.totals) {
    json["causes"].push_back(FieldsInJson(kCauseTotalFields, total));
  }
  json["events"] = Json::array();
  for (const RunEvent& event : run.events) {
    Json& told = json["events"].emplace_back(EventInJson(event));
    told["age_seconds"] = Seconds(event.age);
    told["warning"] = event.level == NoticeLevel::kWarning;
  }
  return json;
}

std::string JsonText(const OrderedJson& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ddprun

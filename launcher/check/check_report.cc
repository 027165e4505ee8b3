#include "launcher/check/check_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "common/json.h"
#include "common/log.h"
#include "launcher/status_json.h"
#include "launcher/verbs/status.h"

namespace ddprun {
namespace {

std::string RateInWords(double bytes) {
  static constexpr std::array kUnits{"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t unit = 0;
  for (; bytes >= 1'000 && unit + 1 < kUnits.size(); ++unit) {
    bytes /= 1'000;
  }
  char text[32];
  std::snprintf(text, sizeof text, bytes >= 100 || unit == 0 ? "%.0f %s" : "%.1f %s", bytes,
                kUnits[unit]);
  return text;
}

std::string TimeInWords(double seconds) {
  char text[32];
  if (!std::isfinite(seconds)) {
    return "-";
  }
  std::snprintf(text, sizeof text, seconds < 0.001 ? "%.0f us" : "%.1f ms",
                seconds < 0.001 ? seconds * 1e6 : seconds * 1e3);
  return text;
}

std::string SlowInWords(const SlowPart& part, const Checked& checked) {
  const std::string first = checked.nodes[part.nodes.first].name;
  const std::string both = first + " - " + checked.nodes[part.nodes.second].name;
  switch (part.kind) {
    case SlowKind::kHost:
      return "slow host: " + first + ": " + RateInWords(part.value) +
             " at its best; the others: " + RateInWords(part.usual) + " (median)";
    case SlowKind::kFarHost:
      return "far host: " + first + ": " + TimeInWords(part.value) +
             " there and back at its best; the others: " + TimeInWords(part.usual) + " (median)";
    case SlowKind::kLink:
      return "slow link: " + both + ": " + RateInWords(part.value) +
             "; each of them with others: " + RateInWords(part.usual);
    case SlowKind::kNoLink:
      return "no link: " + both + ": " + part.error;
  }
  return "";
}

const char* NameOfKind(SlowKind kind) {
  switch (kind) {
    case SlowKind::kHost:
      return "slow_host";
    case SlowKind::kFarHost:
      return "far_host";
    case SlowKind::kLink:
      return "slow_link";
    case SlowKind::kNoLink:
      return "no_link";
  }
  return "";
}

// Of one node, all that is known.
std::string AllOfOneNode(const CheckedNode& node) {
  std::vector<std::vector<std::string>> rows = {{"FACT", "VERDICT", "VALUE"}};
  for (const HostFact& fact : node.facts) {
    rows.push_back({fact.name, fact.bad ? "BAD" : "ok", fact.value});
  }
  if (node.asked) {
    const bool refuses = !node.node_check.empty();
    rows.push_back({"node check", refuses ? "BAD" : "ok", refuses ? node.node_check : "passes"});
  }
  if (rows.size() == 1) {
    return "nothing to look at here: no NVIDIA driver, and no --node-check\n";
  }
  return AlignedRows(rows);
}

std::string NodeTable(const Checked& checked) {
  std::vector<std::vector<std::string>> rows = {
      {"NODE", "FACTS", "NODE CHECK", "TO OTHERS", "LATENCY", "VERDICT"}};
  for (std::size_t i = 0; i < checked.nodes.size(); ++i) {
    const CheckedNode& node = checked.nodes[i];
    const auto bad = std::ranges::count_if(node.facts, &HostFact::bad);
    const bool slow = std::ranges::any_of(checked.slow, [i](const SlowPart& part) {
      return part.nodes.first == i || part.nodes.second == i;
    });
    const bool met = !checked.pairs.empty();
    rows.push_back({node.name, bad == 0 ? "well" : std::to_string(bad) + " bad",
                    !node.asked               ? "-"
                    : node.node_check.empty() ? "passes"
                                              : "refuses",
                    met ? RateInWords(BestRate(i, checked.pairs)) : "-",
                    met ? TimeInWords(LeastLatency(i, checked.pairs)) : "-",
                    node.Bad() ? "BAD"
                    : slow     ? "SLOW"
                               : "ok"});
  }
  return AlignedRows(rows);
}

OrderedJson JsonOf(const CheckedNode& node) {
  OrderedJson facts = OrderedJson::array();
  for (const HostFact& fact : node.facts) {
    facts.push_back({{"name", fact.name}, {"value", fact.value}, {"bad", fact.bad}});
  }
  return {{"node", node.name},
          {"host", node.host},
          {"well", !node.Bad()},
          {"refused", node.refuses},
          {"node_check", node.asked ? OrderedJson(node.node_check) : nullptr},
          {"facts", facts}};
}

}  // namespace

bool CheckedNode::Bad() const {
  return !refuses.empty() || !node_check.empty() || std::ranges::any_of(facts, &HostFact::bad);
}

bool Checked::Bad() const {
  return !slow.empty() || std::ranges::any_of(nodes, &CheckedNode::Bad);
}

std::string InWords(const Checked& checked) {
  const bool one = checked.nodes.size() == 1;
  std::string text = one ? AllOfOneNode(checked.nodes.front()) : NodeTable(checked);
  for (const CheckedNode& node : checked.nodes) {
    if (!node.refuses.empty()) {
      text += node.name + " would be refused: " + node.refuses + "\n";
    }
    for (const HostFact& fact : node.facts) {
      text += fact.bad && !one ? node.name + ": " + fact.name + " " + fact.value + "\n" : "";
    }
    if (!node.node_check.empty() && !one) {
      text += node.name + " is refused by its node check: " + node.node_check + "\n";
    }
  }
  for (const SlowPart& part : checked.slow) {
    text += SlowInWords(part, checked) + "\n";
  }
  return Printable(text);
}

std::string InJson(const Checked& checked) {
  OrderedJson json{{"well", !checked.Bad()},
                   {"nodes", OrderedJson::array()},
                   {"pairs", OrderedJson::array()},
                   {"slow", OrderedJson::array()}};
  for (const CheckedNode& node : checked.nodes) {
    json["nodes"].push_back(JsonOf(node));
  }
  for (const PairResult& pair : checked.pairs) {
    json["pairs"].push_back(
        {{"nodes", {checked.nodes[pair.nodes.first].name, checked.nodes[pair.nodes.second].name}},
         {"bytes_per_second", {pair.there, pair.back}},
         {"latency_seconds", pair.latency},
         {"error", pair.error}});
  }
  for (const SlowPart& part : checked.slow) {
    OrderedJson names{checked.nodes[part.nodes.first].name};
    if (part.nodes.second != part.nodes.first) {
      names.push_back(checked.nodes[part.nodes.second].name);
    }
    json["slow"].push_back({{"what", NameOfKind(part.kind)},
                            {"nodes", names},
                            {"value", part.value},
                            {"others", part.usual},
                            {"text", SlowInWords(part, checked)}});
  }
  return JsonText(json, 2) + "\n";
}

std::string InJson(const CheckedNode& node) {
  return JsonText(JsonOf(node));
}

Result<CheckedNode> NodeFromJson(const std::string& text) {
  const nlohmann::json json = ParseJson(text);
  try {
    CheckedNode node;
    node.host = json.at("host");
    node.refuses = json.at("refused");
    node.asked = !json.at("node_check").is_null();
    node.node_check = node.asked ? json.at("node_check") : "";
    for (const nlohmann::json& fact : json.at("facts")) {
      node.facts.push_back({fact.at("name"), fact.at("value"), fact.at("bad")});
    }
    return node;
  } catch (const nlohmann::json::exception& error) {
    return Invalid("a node tells something else than its facts", error.what());
  }
}

}  // namespace ddprun

#include "launcher/check/check_report.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/json.h"
#include "common/log.h"
#include "launcher/print_out.h"
#include "launcher/status_json.h"
#include "launcher/verbs/status.h"

namespace ddprun {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostFact, name, value, bad)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckedLink, to, bytes_per_second, latency_seconds, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckedNode, node, host, facts, refused, asked, node_check,
                                   links, verdict)

namespace {

constexpr std::size_t kMostShown = 40;

// The best speed that a node reached.
struct NodeSpeed {
  double out = 0;  // Bytes a second.
  double in = 0;
  double latency = 0;  // 0: it has reached no node.
  double Rate() const { return std::min(out, in); }
};

std::vector<NodeSpeed> SpeedsOf(const std::vector<CheckedNode>& nodes) {
  std::vector<NodeSpeed> speeds(nodes.size());
  for (std::size_t from = 0; from < nodes.size(); ++from) {
    NodeSpeed& sender = speeds[from];
    for (const CheckedLink& link : nodes[from].links) {
      sender.out = std::max(sender.out, link.bytes_per_second);
      speeds[link.to].in = std::max(speeds[link.to].in, link.bytes_per_second);
      if (link.error.empty() && (sender.latency == 0 || link.latency_seconds < sender.latency)) {
        sender.latency = link.latency_seconds;
      }
    }
  }
  return speeds;
}

double MedianRate(const std::vector<NodeSpeed>& speeds) {
  std::vector<double> rates;
  for (const NodeSpeed& speed : speeds) {
    rates.push_back(speed.Rate());
  }
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::ranges::nth_element(rates, middle);
  return *middle;
}

std::string Formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string RateInWords(double bytes_per_second) {
  return Formatted("%.1f MB/s", bytes_per_second / 1e6);
}

void JudgeNode(CheckedNode& node, std::vector<std::string>& problems) {
  const std::size_t before = problems.size();
  if (!node.refused.empty()) {
    problems.push_back(node.node + " would be refused: " + node.refused);
  }
  for (const HostFact& fact : node.facts) {
    if (fact.bad) {
      problems.push_back(node.node + ": " + fact.name + " " + fact.value);
    }
  }
  if (!node.node_check.empty()) {
    problems.push_back(node.node + " is refused by its node check: " + node.node_check);
  }
  node.verdict = problems.size() > before ? "BAD" : "ok";
}

void JudgeSpeeds(CheckReport& report) {
  const std::vector<NodeSpeed> speeds = SpeedsOf(report.nodes);
  const double usual = MedianRate(speeds);
  const auto is_slow = [&](std::size_t node) { return speeds[node].Rate() < usual / 2; };
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    CheckedNode& node = report.nodes[i];
    const bool cut_off = speeds[i].Rate() == 0 && !node.links.empty();  // Its links say why.
    if (node.verdict == "ok") {
      node.verdict = cut_off ? "NO LINK" : is_slow(i) ? "SLOW" : "ok";
    }
    if (is_slow(i) && !cut_off) {
      report.problems.push_back("slow node: " + node.node + ": " + RateInWords(speeds[i].Rate()) +
                                " at its best; the median of all nodes: " + RateInWords(usual));
    }
  }
  for (std::size_t from = 0; from < speeds.size(); ++from) {
    for (const CheckedLink& link : report.nodes[from].links) {
      const std::string ends = report.nodes[from].node + " -> " + report.nodes[link.to].node;
      if (!link.error.empty()) {
        report.problems.push_back("no link: " + ends + ": " + link.error);
      } else if (link.bytes_per_second < usual / 2 && !is_slow(from) && !is_slow(link.to)) {
        report.problems.push_back("slow link: " + ends + ": " + RateInWords(link.bytes_per_second) +
                                  "; the median of all nodes: " + RateInWords(usual));
      }
    }
  }
}

// "2 of 2 well"; "-": nothing was looked at.
std::string GpusInWords(const HostFacts& facts) {
  const auto gpus = std::ranges::find(facts, "gpus", &HostFact::name);
  return gpus == facts.end() ? "-" : gpus->bad ? "bad" : gpus->value;
}

}  // namespace

CheckReport Judge(std::vector<CheckedNode> nodes) {
  CheckReport report;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string& host = nodes[i].host;
    const bool unique = std::ranges::count(nodes, host, &CheckedNode::host) == 1;
    nodes[i].node = unique ? host : "node " + std::to_string(i) + " (" + host + ")";
    JudgeNode(nodes[i], report.problems);
  }
  report.nodes = std::move(nodes);
  JudgeSpeeds(report);
  return report;
}

std::string InWords(const CheckReport& report) {
  const std::vector<NodeSpeed> speeds = SpeedsOf(report.nodes);
  std::vector<std::vector<std::string>> rows = {
      {"NODE", "GPUS", "NODE CHECK", "SPEED", "LATENCY", "VERDICT"}};
  for (std::size_t i = 0; i < report.nodes.size(); ++i) {
    const CheckedNode& node = report.nodes[i];
    const bool passes = node.node_check.empty();
    const double latency = speeds[i].latency;
    rows.push_back({node.node, GpusInWords(node.facts),
                    !node.asked ? "-"
                    : passes    ? "passes"
                                : "refuses",
                    node.links.empty() ? "-" : RateInWords(speeds[i].Rate()),
                    latency == 0 ? "-" : Formatted("%.3f ms", latency * 1e3), node.verdict});
  }
  std::string text = AlignedRows(rows);
  const std::size_t shown = std::min(report.problems.size(), kMostShown);
  for (std::size_t i = 0; i < shown; ++i) {
    text += report.problems[i] + "\n";
  }
  if (shown < report.problems.size()) {
    text += "and " + std::to_string(report.problems.size() - shown) + " more (-o json has all)\n";
  }
  return Printable(text);
}

std::string InJson(const CheckReport& report) {
  const nlohmann::json json{
      {"well", report.problems.empty()}, {"problems", report.problems}, {"nodes", report.nodes}};
  return JsonText(json, 2) + "\n";
}

std::string InJson(const CheckedNode& node) {
  return JsonText(nlohmann::json(node));
}

Result<CheckedNode> NodeFromJson(const std::string& text, std::size_t nodes) {
  try {
    CheckedNode node = ParseJson(text);
    for (const CheckedLink& link : node.links) {
      if (link.to >= nodes) {
        return Invalid("a node reports a link to an unknown node", std::to_string(link.to));
      }
    }
    return node;
  } catch (const nlohmann::json::exception& error) {
    return Invalid("a node sent an unexpected answer", error.what());
  }
}

}  // namespace ddprun

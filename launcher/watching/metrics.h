// The metrics of one agent, in Prometheus' text format (version 0.0.4). One table generates the
// answer and docs/watching.md.
//
// Names follow Prometheus' rules: one prefix, base units, _total for counters. A metric has one
// series, or one for each word of a label, or one for each node (only from the server,
// kMaxListedNodes at most). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/watching/node_view.h"

namespace ddprun {

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// For a server without an agent: its version, and its run if it has one. `unix_now`: seconds since
// 1970, for metrics that are moments.
std::string MetricsOfServer(const std::optional<RunStatus>& run, double unix_now);

std::string MetricsText(const NodeView& view, double unix_now);

struct MetricRow {
  std::string name;
  std::string type;    // "gauge" or "counter".
  std::string labels;  // "state"; empty: none.
  std::string help;
  bool of_run = false;  // Reported only by the node that hosts the server.
};
std::vector<MetricRow> MetricTable();

}  // namespace ddprun

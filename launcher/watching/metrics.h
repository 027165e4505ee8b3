// The metrics of one agent, in Prometheus' text format (version 0.0.4): one table, from which the
// answer and docs/watching.md are made.
//
// Names follow Prometheus' rules: one prefix, base units, _total on what only grows. Bounded: one
// series per metric, but for the few words of a label, and nodes (kMaxListedNodes at most, by the
// server alone). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/watching/node_view.h"

namespace ddprun {

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// Of a server without an agent: which it is, and what its run does, where it has one. `unix_now`:
// seconds since 1970, since what is a moment is told as one.
std::string MetricsOfServer(const std::optional<RunStatus>& run, double unix_now);

std::string MetricsText(const NodeView& view, double unix_now);

struct MetricRow {
  std::string name;
  std::string type;    // "gauge" or "counter".
  std::string labels;  // "state"; empty: none.
  std::string help;
  bool of_run = false;  // Told where the server is.
};
std::vector<MetricRow> MetricTable();

}  // namespace ddprun

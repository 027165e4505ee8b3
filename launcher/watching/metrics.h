// The metrics of one agent, in Prometheus' text format (version 0.0.4). One table generates the
// answer and docs/watching.md.
//
// Names follow Prometheus' rules: one prefix, base units, _total for counters. A metric has one
// series, or one for each word of a label, or one for each node (only from the server,
// kMaxListedNodes at most). Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "launcher/watching/node_view.h"

namespace ddprun {

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// For a server without an agent: its version, and its run if it has one. `unix_now`: seconds since
// 1970, for metrics that are moments.
std::string MetricsOfServer(const std::optional<RunStatus>& run, double unix_now);

std::string MetricsText(const NodeView& view, double unix_now);

class Series;

struct Metric {
  std::string_view name;
  std::string_view type;    // "gauge" or "counter".
  std::string_view labels;  // "state"; empty: none.
  std::string_view help;
  void (*tell)(const NodeView&, Series&);
};
// `of_run`: those reported only by the node that hosts the server.
std::span<const Metric> MetricTable(bool of_run);

}  // namespace ddprun

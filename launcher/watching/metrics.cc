#include "launcher/watching/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <vector>

#include "launcher/headline.h"
#include "rendezvous/stragglers.h"

namespace ddprun {
namespace {

// Backslash, quote and newline, as the format wants them; other control characters become '?'.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') {
      quoted += {'\\', c};
    } else if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
  }
  return quoted + '"';
}

std::string NumberText(double value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

double Seconds(std::chrono::microseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

using Labels = std::vector<std::pair<std::string_view, std::string>>;

}  // namespace

// The series of one metric.
class Series {
 public:
  Series(std::string& text, std::string_view name, double unix_now)
      : now(unix_now), text_(text), name_(name) {}

  void Add(double value) { Add({}, value); }
  void Add(const Labels& labels, double value) {
    text_ += name_;
    char before = '{';
    for (const auto& [name, text] : labels) {
      text_ += before;
      text_ += name;
      text_ += '=' + Quoted(text);
      before = ',';
    }
    text_ += (labels.empty() ? " " : "} ") + NumberText(value) + '\n';
  }
  // Adds the machine's facts that belong to this metric.
  void AddOf(const std::vector<HostSample>& samples) {
    for (const HostSample& sample : samples) {
      if (sample.metric == name_) {
        Add({sample.labels.begin(), sample.labels.end()}, sample.value);
      }
    }
  }
  // Adds a series for each word: 1 for the current one, 0 for the others.
  void AddState(std::span<const std::string_view> words, std::string_view is) {
    for (const std::string_view word : words) {
      Add({{"state", std::string(word)}}, word == is);
    }
  }

  const double now;

 private:
  std::string& text_;
  const std::string_view name_;
};

namespace {

void TellHost(const NodeView& view, Series& out) {
  out.AddOf(view.host);
}

const RankProgress* SlowestOf(const NodeView& view) {
  const auto slowest = std::min_element(
      view.ranks.begin(), view.ranks.end(),
      [](const RankProgress& a, const RankProgress& b) { return a.step < b.step; });
  return slowest == view.ranks.end() ? nullptr : &*slowest;
}

std::uint64_t FurthestOf(const NodeView& view) {
  std::uint64_t step = 0;
  for (const RankProgress& rank : view.ranks) {
    step = std::max(step, rank.step);
  }
  return step;
}

// In the order of AgentPhase.
constexpr std::array<std::string_view, 4> kAgentPhases{"idle", "running", "stopping", "done"};
constexpr std::array<std::string_view, 6> kRunPhases{"recovering", "gathering", "running",
                                                     "draining",   "succeeded", "failed"};

constexpr Metric kOfNode[] = {
    {"ddprun_build_info", "gauge", "version", "Always 1; the label is ddprun's version.",
     [](const NodeView&, Series& out) {
       out.Add({{"version", DDPRUN_VERSION}}, 1);
     }},
    {"ddprun_run_info", "gauge", "run, node, scheduler",
     "Always 1; the labels are the run, this node and its scheduler.",
     [](const NodeView& view, Series& out) {
       out.Add({{"run", view.run_id}, {"node", view.node}, {"scheduler", view.scheduler}}, 1);
     }},
    {"ddprun_agent_state", "gauge", "state", "1 for this agent's state, 0 for the others.",
     [](const NodeView& view, Series& out) {
       out.AddState(kAgentPhases, kAgentPhases[static_cast<std::size_t>(view.phase)]);
     }},
    {"ddprun_ready", "gauge", "", "1: workers run here, or this node is a spare; as /readyz says.",
     [](const NodeView& view, Series& out) { out.Add(ReadinessOf(view).ready); }},
    {"ddprun_server_term", "gauge", "", "Term of the server that this node follows.",
     [](const NodeView& view, Series& out) { out.Add(static_cast<double>(view.term.value)); }},
    {"ddprun_server_heard_age_seconds", "gauge", "",
     "Seconds since the server last answered this node.",
     [](const NodeView& view, Series& out) {
       if (view.ever_heard) {
         out.Add(Seconds(view.heard));
       }
     }},
    {"ddprun_generation", "gauge", "", "Generation that this node runs; 0: none.",
     [](const NodeView& view, Series& out) {
       out.Add(static_cast<double>(view.generation.value));
     }},
    {"ddprun_world_size", "gauge", "", "Workers in this node's world; 0: it is in none.",
     [](const NodeView& view, Series& out) { out.Add(view.world_size); }},
    {"ddprun_workers_wanted", "gauge", "", "Workers that this node starts (--nproc-per-node).",
     [](const NodeView& view, Series& out) { out.Add(view.workers); }},
    {"ddprun_workers_alive", "gauge", "", "Worker processes that are running.",
     [](const NodeView& view, Series& out) { out.Add(view.alive); }},
    {"ddprun_workers_late", "gauge", "", "Workers without progress for longer than --hang-timeout.",
     [](const NodeView& view, Series& out) {
       out.Add(
           static_cast<double>(std::count_if(view.ranks.begin(), view.ranks.end(),
                                             [](const RankProgress& rank) { return rank.late; })));
     }},
    {"ddprun_worker_starts_total", "counter", "", "Workers started by this agent.",
     [](const NodeView& view, Series& out) { out.Add(static_cast<double>(view.counts.started)); }},
    {"ddprun_worker_ends_total", "counter", "how",
     "Workers of this agent that ended: success, failure (another exit code), signal.",
     [](const NodeView& view, Series& out) {
       out.Add({{"how", "success"}}, static_cast<double>(view.counts.succeeded));
       out.Add({{"how", "failure"}}, static_cast<double>(view.counts.failed));
       out.Add({{"how", "signal"}}, static_cast<double>(view.counts.killed));
     }},
    {"ddprun_restart_budget", "gauge", "", "Restarts that the run may use (--max-restarts).",
     [](const NodeView& view, Series& out) { out.Add(view.max_restarts); }},
    {"ddprun_restart_budget_used", "gauge", "",
     "Restarts that the run has used, as the server last reported.",
     [](const NodeView& view, Series& out) { out.Add(view.restarts_used); }},
    {"ddprun_last_step", "gauge", "", "Highest STEP of a worker here; absent: none was reported.",
     [](const NodeView& view, Series& out) {
       if (const std::uint64_t step = FurthestOf(view); step != 0) {
         out.Add(static_cast<double>(step));
       }
     }},
    {"ddprun_last_step_timestamp_seconds", "gauge", "",
     "When a worker here last made progress (a higher STEP, another PHASE), as seconds since 1970.",
     [](const NodeView& view, Series& out) {
       const auto newest = std::min_element(
           view.ranks.begin(), view.ranks.end(),
           [](const RankProgress& a, const RankProgress& b) { return a.since < b.since; });
       if (newest != view.ranks.end()) {
         out.Add(out.now - Seconds(newest->since));
       }
     }},
    {"ddprun_steps_behind_max", "gauge", "",
     "Difference between the highest and the lowest STEP of the workers here.",
     [](const NodeView& view, Series& out) {
       if (const RankProgress* const slowest = SlowestOf(view)) {
         out.Add(static_cast<double>(FurthestOf(view) - slowest->step));
       }
     }},
    {"ddprun_slowest_rank", "gauge", "", "The rank here whose STEP is lowest.",
     [](const NodeView& view, Series& out) {
       if (const RankProgress* const slowest = SlowestOf(view)) {
         out.Add(slowest->rank);
       }
     }},
    {"ddprun_job_seconds_left", "gauge", "",
     "Seconds until the scheduler ends the job; absent: unknown.",
     [](const NodeView& view, Series& out) {
       if (view.job_ends_unix) {
         out.Add(static_cast<double>(*view.job_ends_unix) - out.now);
       }
     }},
    {"ddprun_node_facts_bad", "gauge", "",
     "Facts of this machine that need attention (--host-check).", TellHost},
    {"ddprun_node_xid_total", "counter", "gpu, xid",
     "Xids of NVIDIA's driver since ddprun's start; absent: none came.", TellHost},
    {"ddprun_node_gpu_lost", "gauge", "gpu", "1: the GPU has fallen off the bus.", TellHost},
    {"ddprun_node_gpu_uncorrected_errors", "gauge", "gpu",
     "Uncorrected memory errors since the driver was loaded.", TellHost},
    {"ddprun_node_gpu_remapped_rows", "gauge", "gpu, why",
     "Rows of its memory that were replaced: correctable, uncorrectable.", TellHost},
    {"ddprun_node_gpu_remap", "gauge", "gpu, state",
     "1: rows will be replaced at its next reset (pending), or none was left to do so (failed).",
     TellHost},
    {"ddprun_node_gpu_throttled", "gauge", "gpu, why",
     "1: the GPU's clocks are reduced for heat or power: hw_slowdown, sw_thermal, hw_thermal, "
     "power_brake.",
     TellHost},
    {"ddprun_node_clock_offset_seconds", "gauge", "",
     "The server's clock minus this node's; absent if this node hosts the server.", TellHost},
    {"ddprun_node_clock_uncertainty_seconds", "gauge", "",
     "Largest error of ddprun_node_clock_offset_seconds.", TellHost},
};

// Includes totals of 0, because increase() cannot see a counter that begins above 0.
std::vector<CauseTotal> TotalsOf(const RunStatus& run) {
  std::vector<CauseTotal> totals = run.totals;
  for (const std::string_view cause : History::kCauses) {
    if (std::ranges::find(totals, cause, &CauseTotal::cause) == totals.end()) {
      totals.push_back({std::string(cause)});
    }
  }
  return totals;
}

constexpr Metric kOfRun[] = {
    {"ddprun_run_state", "gauge", "state", "1 for the run's state, 0 for the others.",
     [](const NodeView& view, Series& out) { out.AddState(kRunPhases, view.run->phase); }},
    {"ddprun_run_state_seconds", "gauge", "", "Seconds that the run has been in this state.",
     [](const NodeView& view, Series& out) { out.Add(Seconds(view.run->phase_since)); }},
    {"ddprun_wait_seconds", "gauge", "",
     "Seconds in this state without training; 0: it trains, or has ended.",
     [](const NodeView& view, Series& out) {
       out.Add(view.run->waits_for.empty() ? 0 : Seconds(view.run->phase_since));
     }},
    {"ddprun_nodes", "gauge", "state", "Nodes that the server knows, by their state.",
     [](const NodeView& view, Series& out) {
       std::map<std::string, std::uint32_t> counts;
       for (const NodeStatus& node : view.run->nodes) {
         ++counts[node.state];
       }
       if (view.run->more_nodes != 0) {
         counts["not listed"] = view.run->more_nodes;
       }
       for (const auto& [state, count] : counts) {
         out.Add({{"state", state}}, count);
       }
     }},
    {"ddprun_nodes_wanted", "gauge", "bound", "MIN and MAX of --nnodes.",
     [](const NodeView& view, Series& out) {
       out.Add({{"bound", "min"}}, view.run->min_nodes);
       out.Add({{"bound", "max"}}, view.run->max_nodes);
     }},
    {"ddprun_requeues", "gauge", "", "Times that a scheduler has started the job again.",
     [](const NodeView& view, Series& out) { out.Add(view.run->requeues); }},
    {"ddprun_last_start_seconds", "gauge", "phase",
     "Parts of the run's newest start or restart, as far as it has come: detect, stop, backoff, "
     "form, start, state, first_step.",
     [](const NodeView& view, Series& out) {
       if (view.run->startups.empty()) {
         return;
       }
       const Startup& last = view.run->startups.back();
       for (const auto& [phase, took] :
            {std::pair("detect", last.detect), std::pair("stop", last.stop),
             std::pair("backoff", last.backoff), std::pair("form", last.form),
             std::pair("start", last.start), std::pair("state", last.state),
             std::pair("first_step", last.first_step)}) {
         if (took) {
           out.Add({{"phase", phase}}, Seconds(*took));
         }
       }
     }},
    {"ddprun_worlds_ended_total", "counter", "cause",
     "Worlds that ended before the run did, whether or not they used a restart: worker, hang, "
     "node_lost, scale_up, "
     "leave, stop, superseded, other. Includes the counts of earlier servers, as far as they are "
     "known.",
     [](const NodeView& view, Series& out) {
       for (const CauseTotal& total : TotalsOf(*view.run)) {
         out.Add({{"cause", total.cause}}, static_cast<double>(total.ended));
       }
     }},
    {"ddprun_lost_seconds_total", "counter", "cause",
     "Seconds without training, from a failure to the first step of all workers. Absent: no step "
     "is known.",
     [](const NodeView& view, Series& out) {
       const bool known = StepsAreKnown(*view.run);
       for (const CauseTotal& total : known ? TotalsOf(*view.run) : std::vector<CauseTotal>()) {
         out.Add({{"cause", total.cause}}, Seconds(total.lost));
       }
     }},
    {"ddprun_losing_seconds", "gauge", "",
     "Seconds of the current loss, which ddprun_lost_seconds_total does not include yet: an "
     "unfinished restart, or steps that stand still. 0: it trains.",
     [](const NodeView& view, Series& out) { out.Add(Seconds(LosingNow(*view.run))); }},
    {"ddprun_step_work_seconds", "gauge", "stat",
     "Seconds that ranks need for a step before they wait for others (the least of their last 20 "
     "steps): min, median and max over ranks.",
     [](const NodeView& view, Series& out) {
       if (const Stragglers found = StragglersOf(*view.run); found.most.count() > 0) {
         out.Add({{"stat", "min"}}, Seconds(found.least));
         out.Add({{"stat", "median"}}, Seconds(found.usual));
         out.Add({{"stat", "max"}}, Seconds(found.most));
       }
     }},
    {"ddprun_slow_ranks", "gauge", "",
     "Ranks that need 1.5 times the median for each of 20 steps, before they wait for others.",
     [](const NodeView& view, Series& out) {
       out.Add(static_cast<double>(StragglersOf(*view.run).count));
     }},
    {"ddprun_slow_rank", "gauge", "",
     "The slowest rank of ddprun_slow_ranks; absent: there is none.",
     [](const NodeView& view, Series& out) {
       if (const Stragglers found = StragglersOf(*view.run); !found.named.empty()) {
         out.Add(found.named.front().rank);
       }
     }},
    {"ddprun_node_heartbeat_age_seconds", "gauge", "node",
     "Seconds since the server last heard from a node of the world.",
     [](const NodeView& view, Series& out) {
       for (const NodeStatus& node : view.run->nodes) {
         if (node.in_world) {
           out.Add({{"node", node.node}}, Seconds(node.last_seen));
         }
       }
     }},
    {"ddprun_node_step", "gauge", "node", "Lowest STEP of the workers of a node of the world.",
     [](const NodeView& view, Series& out) {
       for (const NodeStatus& node : view.run->nodes) {
         if (node.in_world && node.step != 0 && node.step_source != "collectives") {
           out.Add({{"node", node.node}}, static_cast<double>(node.step));
         }
       }
     }},
};

void Tell(const Metric& metric, const NodeView& view, double unix_now, std::string& text) {
  const std::string name(metric.name);
  std::string series;
  Series out(series, metric.name, unix_now);
  metric.tell(view, out);
  if (!series.empty()) {
    text += "# HELP " + name + ' ' + std::string(metric.help) + "\n# TYPE " + name + ' ' +
            std::string(metric.type) + '\n' + series;
  }
}

// The node's metrics, and those of the run if this node carries its server.
std::string Told(std::span<const Metric> of_node, const NodeView& view, double unix_now) {
  std::string text;
  for (const Metric& metric : of_node) {
    Tell(metric, view, unix_now, text);
  }
  for (const Metric& metric : view.run ? std::span(kOfRun) : std::span<const Metric>()) {
    Tell(metric, view, unix_now, text);
  }
  return text;
}

}  // namespace

std::string MetricsText(const NodeView& view, double unix_now) {
  return Told(kOfNode, view, unix_now);
}

std::string MetricsOfServer(const std::optional<RunStatus>& run, double unix_now) {
  NodeView view;
  view.run = run;
  view.run_id = run ? run->run_id : "";
  return Told(std::span(kOfNode).first(run ? 2 : 1), view, unix_now);  // Version and run.
}

std::span<const Metric> MetricTable(bool of_run) {
  return of_run ? std::span<const Metric>(kOfRun) : kOfNode;
}

}  // namespace ddprun

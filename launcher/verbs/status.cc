#include "launcher/verbs/status.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/exit_code.h"
#include "common/files.h"
#include "common/json.h"
#include "common/log.h"
#include "common/slug.h"
#include "common/text.h"
#include "launcher/headline.h"
#include "launcher/print_out.h"
#include "launcher/status_json.h"
#include "launcher/verbs/node_query.h"
#include "launcher/verbs/pool_status.h"
#include "launcher/watching/page_access.h"
#include "rendezvous/client_asks.h"
#include "rendezvous/messages/describe.h"
#include "rendezvous/stragglers.h"

namespace ddprun {
namespace {

constexpr Duration kStatusPatience{5'000};
constexpr std::size_t kShownNodes = 40;
constexpr std::size_t kShownEvents = 8;
constexpr Duration kLookEvery{1'000};
constexpr Duration kServerLost{15'000};  // A takeover is over by then.
constexpr const char* kClearScreen = "\033[H\033[J";
constexpr std::size_t kRows = 24;  // Of a run with many nodes that is watched.
constexpr std::size_t kMostPageLinks = 4'096;

// ", requeued 2 times, the job ends in 3 h 20 min": its scheduler's part.
std::string Job(const RunStatus& run, std::int64_t now_unix) {
  std::string text;
  if (run.requeues > 0) {
    text += ", requeued " + CountOf(run.requeues, "time");
  }
  if (run.job_ends_unix > 0 && run.outcome.empty()) {
    const std::int64_t left = run.job_ends_unix - now_unix;
    text += left > 0 ? ", the job ends in " + FormatDuration(std::chrono::seconds(left))
                     : ", the job's time is over";
  }
  return text;
}

// "run demo: RUNNING for 12.0 s, generation 2 of 2 nodes and 4 workers, restarts 1 of 3"
std::string Headline(const RunStatus& run, std::int64_t now_unix) {
  std::string text = (run.run_id == kUnnamedRun ? "run" : "run " + run.run_id) + ": " +
                     Uppercase(run.phase) + " for " + FormatDuration(run.phase_since);
  if (run.generation.value > 0) {
    text += ", generation " + std::to_string(run.generation.value) + " of " +
            CountOf(run.group_size, "node") + " and " + CountOf(run.world_size, "worker");
  }
  text += " (--nnodes=" + std::to_string(run.min_nodes) +
          (run.max_nodes == run.min_nodes ? "" : ":" + std::to_string(run.max_nodes)) +
          "), restarts " + std::to_string(run.restarts_used) + " of " +
          std::to_string(run.max_restarts);
  return text + Job(run, now_unix);
}

std::string Ranks(const NodeStatus& node) {
  if (!node.in_world || node.workers == 0) {
    return "-";
  }
  const std::string first = std::to_string(node.first_rank);
  return node.workers == 1 ? first
                           : first + "-" + std::to_string(node.first_rank + node.workers - 1);
}

// Why no world has it; else what is bad about its machine. The whole is in --output=json.
std::string WhatIsWrong(const NodeStatus& node) {
  std::string wrong = node.reason;
  for (const HostFact& fact : node.facts) {
    if (node.reason.empty() && fact.bad) {
      wrong += (wrong.empty() ? "" : "; ") + fact.name + " " + fact.value;
    }
  }
  return Shortened(PrintableLine(wrong), kMostOfCell);
}

// A node's row of the table, and what stands above it.
std::vector<std::string> NodeColumns() {
  return {"NODE", "HOST", "STATE", "RANKS", "SEEN", "STEP", "PHASE", "REASON"};
}

std::vector<std::string> NodeCells(const NodeStatus& node) {
  const bool heard = node.step > 0 || !node.phase.empty();
  const std::string source = node.step_source.empty() ? "" : " " + node.step_source;
  return {node.node,
          node.host,
          node.state,
          Ranks(node),
          FormatDuration(node.last_seen) + " ago",
          heard ? std::to_string(node.step) + source : "-",
          node.phase + (node.late > 0 ? " (late)" : ""),
          WhatIsWrong(node)};
}

std::string Nodes(const RunStatus& run, std::size_t shown) {
  std::vector<std::vector<std::string>> rows = {NodeColumns()};
  const auto with_reason = [](const NodeStatus& node) { return !WhatIsWrong(node).empty(); };
  const bool reasons = std::any_of(
      run.nodes.begin(),
      run.nodes.begin() + static_cast<std::ptrdiff_t>(std::min(run.nodes.size(), shown)),
      with_reason);
  if (!reasons) {
    rows.front().pop_back();
  }
  for (std::size_t i = 0; i < std::min(run.nodes.size(), shown); ++i) {
    rows.push_back(NodeCells(run.nodes[i]));
  }
  const std::size_t more = run.nodes.size() - (rows.size() - 1) + run.more_nodes;
  return AlignedRows(rows, "  ") + (more == 0 ? "" : "  and " + std::to_string(more) + " more\n");
}

// "recovered in 62 ms (detect 1, stop 8, ...); 12 s ago, cause: rank 3 ... was killed by ...": in
// the words of the event.
std::string Newest(const Startup& startup) {
  const bool open = startup.start && !startup.first_step;
  const bool first = !startup.stop;
  const std::string began = !startup.start ? (first ? "starting: " : "recovering: ")
                            : open ? (first ? "workers run after " : "workers run again after ")
                                   : (first ? "started in " : "recovered in ");
  return PrintableLine(began + Describe(startup) + (open ? "; no step is known yet; " : "; ") +
                       FormatDuration(startup.age) + " ago" +
                       (startup.stop ? ", cause: " + startup.cause : "")) +
         "\n";
}

// "preload: has loaded torch: ...", a line for each such fact, and where it holds if not
// everywhere.
std::string Preloads(const RunStatus& run) {
  std::map<std::string, std::vector<std::string>> nodes;
  for (const NodeStatus& node : run.nodes) {
    for (const HostFact& fact : node.facts) {
      if (fact.name == "preload") {
        nodes[fact.value].push_back(node.node);
      }
    }
  }
  std::string text;
  for (const auto& [value, where] : nodes) {
    const std::string on = where.size() == run.nodes.size() ? ""
                           : where.size() == 1              ? " (" + where[0] + ")"
                                                            : " (" + where[0] + " and " +
                                                     std::to_string(where.size() - 1) + " more)";
    text += PrintableLine("preload: " + value + on) + "\n";
  }
  return text;
}

// "goodput: 99.1 % of 12 min 03 s"; empty: nothing was lost.
std::string Kept(const RunStatus& run) {
  const std::optional<double> goodput = GoodputOf(run);
  const bool lost = std::ranges::any_of(run.totals, [](const auto& one) { return one.ended > 0; });
  if (!goodput && lost && run.known > Duration{0}) {
    return "goodput: unknown, because no step is known\n";
  }
  if (!goodput || *goodput == 1) {
    return "";
  }
  char share[16];
  std::snprintf(share, sizeof share, "%.1f", std::floor(*goodput * 1'000) / 10);
  return "goodput: " + std::string(share) + " % of " + FormatDuration(run.known) + "\n";
}

// The slowest ones by name; empty: there are none.
std::string Slow(const RunStatus& run) {
  const Stragglers found = StragglersOf(run);
  std::string text;
  for (const Straggler& straggler : found.named) {
    text += Describe(straggler, found.usual) + "\n";
  }
  const std::size_t more = found.count - found.named.size();
  return text + (more == 0 ? "" : "and " + std::to_string(more) + " more ranks are slow\n");
}

// Its first lines: what it is, and what it does.
std::string BeginningOf(const RunStatus& run, std::int64_t now_unix) {
  std::string text = Headline(run, now_unix) + "\n";
  if (run.outcome.empty()) {
    text += PrintableLine(HeadlineOf(run).text) + "\n" + Slow(run);
  } else {
    text +=
        "outcome: " +
        Continue(PrintableLine(run.outcome), " (exit code " + std::to_string(run.exit_code) + ")") +
        "\n";
  }
  return text;
}

// "5.0 s ago: node n3 is lost". Always one line: the text comes from other processes.
std::string EventLine(const RunEvent& event) {
  return FormatDuration(event.age) + " ago: " + PrintableLine(event.text) + "\n";
}

// Which nodes are to be looked at first: 0 late, 1 not running, 2 all others.
int OddityOf(const NodeStatus& node) {
  return node.late > 0 ? 0 : node.in_world && node.state == "running" ? 2 : 1;
}

std::string OneRun(const RunStatus& run, std::int64_t now_unix) {
  std::string text = BeginningOf(run, now_unix);
  if (!run.nodes.empty()) {
    text += Nodes(run, kShownNodes);
  }
  if (!run.startups.empty()) {
    text += Newest(run.startups.back());
  }
  text += Preloads(run) + Kept(run);
  const std::size_t skipped = run.events.size() - std::min(run.events.size(), kShownEvents);
  for (std::size_t i = skipped; i < run.events.size(); ++i) {
    text += (i == skipped ? "lately:\n  " : "  ") + EventLine(run.events[i]);
  }
  return text;
}

Result<std::string> PageAt(const ServerPlace& place, const std::vector<RunStatus>& runs) {
  if (place.control_socket.empty()) {
    if (place.access.tls.serves() || place.access.tls.calls()) {
      return Error{ErrorKind::kUnavailable,
                   "a server with --tls-cert has no status page on its port. Start its node with "
                   "--http-listen, and open that address"};
    }
    return PagesOf(runs, "http://" + ToString(place.endpoint), place.access.token);
  }
  Result<std::string> links = ReadOrdinary(place.control_socket / kPageLinks, kMostPageLinks);
  return links ? links
               : Error{ErrorKind::kUnavailable,
                       "this run of one node has no status page. Start it with "
                       "--http-listen=127.0.0.1:0"};
}

std::string TextOfFailure(const Error& error, Duration since, bool json) {
  if (!json) {
    return InOneLine("no answer for " + FormatDuration(since) + ": " + error.message) + "\n";
  }
  OrderedJson object;
  object["no_answer_seconds"] = static_cast<double>(since.count()) / 1000;
  object["why"] = error.message;
  return JsonText(object);
}

}  // namespace

std::string FormatStatus(const std::vector<RunStatus>& runs, const std::string& where,
                         std::int64_t now_unix) {
  std::string text;
  if (runs.empty()) {
    text = "the server at " + where + " has no run yet\n";
  } else if (runs.size() == 1) {
    text = OneRun(runs.front(), now_unix);
  } else {
    text = CountOf(static_cast<std::uint32_t>(runs.size()), "run") + " at " + where +
           " (--rdzv-id=NAME shows one of them):\n";
    for (const RunStatus& run : runs) {
      text += PrintableLine(Headline(run, now_unix) +
                            (run.waits_for.empty() ? "" : "; " + run.waits_for)) +
              "\n";
    }
  }
  return Printable(text);
}

std::string FormatScreen(const RunStatus& run, std::int64_t now_unix, std::size_t rows) {
  RunStatus sorted = run;
  std::ranges::stable_sort(sorted.nodes, [](const NodeStatus& a, const NodeStatus& b) {
    return std::tuple(OddityOf(a), a.step) < std::tuple(OddityOf(b), b.step);
  });
  std::string text = BeginningOf(run, now_unix);
  const auto used = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  // The table's head, what is left out, the last recovery, goodput and some events.
  constexpr std::size_t kBelow = 4;
  const std::size_t events = std::min(run.events.size(), rows / 4);
  const std::size_t left = rows > used + kBelow + events ? rows - used - kBelow - events : 1;
  text += run.nodes.empty() ? "" : Nodes(sorted, left);
  text += run.startups.empty() ? "" : Newest(run.startups.back());
  text += Kept(run);
  for (std::size_t i = run.events.size() - events; i < run.events.size(); ++i) {
    text += EventLine(run.events[i]);
  }
  return Printable(text);
}

Result<std::vector<RunStatus>> RunsAt(const ServerPlace& place, const RunId& run_id) {
  return AskStatus(place, run_id, kStatusPatience);
}

std::string StatusJson(const std::vector<RunStatus>& runs, const std::string& where,
                       std::int64_t now_unix) {
  OrderedJson json;
  json["endpoint"] = where;
  json["runs"] = OrderedJson::array();
  for (const RunStatus& run : runs) {
    json["runs"].push_back(RunInJson(run, now_unix));
  }
  return JsonText(json, 2) + "\n";
}

std::string PagesOf(const std::vector<RunStatus>& runs, const std::string& address,
                    const std::string& token) {
  std::string text =
      runs.size() > 1 ? "all runs of the server\n" + PageLinks(address, token, "") : "";
  for (const RunStatus& run : runs) {
    text += (runs.size() > 1 ? "run " + PrintableLine(run.run_id) + "\n" : "") +
            PageLinks(address, token, run.run_id);
  }
  return text;
}

Result<std::string> StatusNow(const StatusRequest& request, bool* over) {
  if (AsksForPool(request.server)) {
    return PoolNow(request.server, request.json);
  }
  ASSIGN_OR_RETURN(const ServerPlace place, FindServer(request.server));
  const auto runs = RunsAt(place, request.server.run_id);
  if (!runs) {
    if (runs.error().kind == ErrorKind::kNotFound && !request.server.pool.empty()) {
      if (const auto queued = QueuedRun(place, request.server.run_id)) {
        return QueuedText(*queued, place, request.json);
      }
    }
    return runs.error();
  }
  const bool one = runs->size() == 1;
  if (over != nullptr) {
    *over = one && !runs->front().outcome.empty();
  }
  if (request.links && !request.watch) {
    return PageAt(place, *runs);
  }
  const std::int64_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return request.json           ? StatusJson(*runs, place.Where(), now)
         : request.watch && one ? FormatScreen(runs->front(), now, kRows)
                                : FormatStatus(*runs, place.Where(), now);
}

int WatchStatus(const StatusRequest& request) {
  const char* const before = !request.json && ::isatty(STDOUT_FILENO) == 1 ? kClearScreen : "";
  std::optional<Time> lost;
  for (bool first = true;; first = false) {
    bool over = false;
    const Result<std::string> look = StatusNow(request, &over);
    const Time now = SteadyNow();
    std::string text;
    if (look) {
      lost.reset();
      text = request.json ? JsonText(ParseJson<OrderedJson>(*look)) : *look;  // On one line.
    } else {
      lost = lost.value_or(now);
      const bool may_return = look.error().kind == ErrorKind::kUnavailable;
      if (first || !may_return || now - *lost > kServerLost) {
        return PrintError("status", look.error());
      }
      text = TextOfFailure(look.error(), std::chrono::ceil<Duration>(now - *lost), request.json);
    }
    if (const int printed = PrintOut(before + text + "\n"); printed != kExitOk) {
      return printed;
    }
    if (over) {
      return kExitOk;
    }
    (void)::poll(nullptr, 0, static_cast<int>(kLookEvery.count()));
  }
}

}  // namespace ddprun

// What people ask of a server's runs: the driver's answers to Describe and Control.
#include <algorithm>

#include "rendezvous/core/control.h"
#include "rendezvous/driver.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

// The last ones.
void AddEvents(const History& history, const KeptSince& kept, Time now, RunStatus& status) {
  const auto& events = history.events();
  const std::size_t shown = std::min(events.size(), kMostShownEvents);
  status.events.assign(events.end() - static_cast<std::ptrdiff_t>(shown), events.end());
  status.totals = history.totals();
  status.known = history.KnownFor(kept, now);
  for (RunEvent& event : status.events) {
    event.age = AgeOf(event, kept, now);
  }
}

}  // namespace

Result<std::vector<RunStatus>> CoordinatorDriver::StatusOfRuns(const RunId& run_id) const {
  const Time now = loop_.Now();
  std::vector<RunStatus> statuses;
  for (const auto& [id, run] : runs_) {
    if (!run_id.empty() && run_id != id) {
      continue;
    }
    RunStatus status = StatusOf(run->state, config_, now);
    if (run_id.empty() && runs_.size() > 1) {  // A list: the rest is told to who names the run.
      status.more_nodes += static_cast<std::uint32_t>(status.nodes.size());
      status.nodes.clear();
      status.startups.clear();
    } else {
      AddEvents(run->history, run->kept_since, now, status);
      run->closeups.AddTo(status);
    }
    statuses.push_back(std::move(status));
  }
  if (statuses.empty() && !run_id.empty()) {
    return Error{ErrorKind::kNotFound, "this server knows no run '" + run_id + "'"};
  }
  return statuses;
}

Result<void> CoordinatorDriver::MayOperate(const std::string& token) {
  Result<void> allowed = gate_.Check(token);
  if (!allowed) {
    lines_.Say(LogLevel::kWarning, "refused a control verb: " + allowed.error().message,
               "refused a control verb (" + std::to_string(gate_.refused()) +
                   " with a wrong token so far): " + allowed.error().message);
  }
  return allowed;
}

Result<RunId> CoordinatorDriver::RunNamed(const RunId& run_id) const {
  if (run_id.empty() && runs_.size() == 1) {
    return runs_.begin()->first;
  }
  if (!runs_.contains(run_id)) {
    return Error{ErrorKind::kNotFound,
                 run_id.empty() ? "this server has " + std::to_string(runs_.size()) +
                                      " runs: name one with --rdzv-id (ddprun status lists them)"
                                : "this server knows no run '" + run_id + "'"};
  }
  return run_id;
}

Result<std::string> CoordinatorDriver::OnControl(const ControlRequest& request) {
  RETURN_IF_ERROR(MayOperate(request.token));
  ASSIGN_OR_RETURN(const RunId run_id, RunNamed(request.run_id));
  RunEntry& run = *runs_.at(run_id);
  const Controlled controlled{request.verb, request.node};
  const ControlAnswer answer = AnswerTo(run.state, controlled);
  if (!answer.accepted) {
    return Error{ErrorKind::kRefused, answer.text};
  }
  Advance(run_id, run, controlled);
  return answer.text;
}

namespace {

// Those of the run that are meant; an error names one that it does not have.
Result<std::vector<NodeId>> NodesAsked(const CoordinatorState& run,
                                       const std::vector<NodeId>& named) {
  std::set<NodeId> known;
  for (const auto& [key, node] : run.nodes) {
    if (!node.lost) {
      known.insert(key.node);
    }
  }
  for (const NodeId& node : named) {
    if (!known.contains(node)) {
      return Error{ErrorKind::kNotFound, "run '" + run.run_id + "' has no node '" + node +
                                             "' (ddprun status lists its nodes)"};
    }
  }
  return named.empty() ? std::vector<NodeId>(known.begin(), known.end()) : named;
}

}  // namespace

void CoordinatorDriver::OnAsk(const Asking& asking, const std::shared_ptr<PendingAsk>& call) {
  Asking meant = asking;
  const auto nodes = [&]() -> Result<std::vector<NodeId>> {
    RETURN_IF_ERROR(MayOperate(asking.token));
    ASSIGN_OR_RETURN(meant.run_id, RunNamed(asking.run_id));
    if (asking.call > 1) {
      return std::vector<NodeId>();
    }
    return NodesAsked(runs_.at(meant.run_id)->state, asking.nodes);
  }();
  if (nodes) {
    road_.OnAsk(meant, *nodes, call);
  } else {
    call->Refuse(nodes.error());
  }
}

}  // namespace ddprun

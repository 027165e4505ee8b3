// What people ask of a server's runs: the driver's answers to Describe and Control.
#include <algorithm>

#include "rendezvous/core/control.h"
#include "rendezvous/driver.h"
#include "rendezvous/messages/describe.h"
#include "rendezvous/real_names.h"

namespace ddprun {
namespace {

// The last ones.
void AddEvents(const History& history, RunStatus& status) {
  const UnixTime now{UnixMilliseconds()};
  const auto& events = history.events();
  const std::size_t shown = std::min(events.size(), kMostShownEvents);
  status.events.assign(events.end() - static_cast<std::ptrdiff_t>(shown), events.end());
  status.totals = history.totals();
  if (history.since() != UnixTime{}) {
    status.known = Duration(std::max<std::int64_t>(0, now.ms - history.since().ms));
  }
  for (RunEvent& event : status.events) {
    event.age = Duration(std::max<std::int64_t>(0, now.ms - event.when.ms));
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
      AddEvents(run->history, status);
      run->closeups.AddTo(status);
    }
    statuses.push_back(std::move(status));
  }
  if (statuses.empty() && !run_id.empty()) {
    return Error{ErrorKind::kNotFound, "this server knows no run '" + run_id + "'"};
  }
  return statuses;
}

Result<std::string> CoordinatorDriver::OnControl(const ControlRequest& request) {
  if (Result<void> allowed = gate_.Check(request.token); !allowed) {
    lines_.Say(LogLevel::kWarning, "refused a control verb: " + allowed.error().message,
               "refused a control verb (" + std::to_string(gate_.refused()) +
                   " with a wrong token so far): " + allowed.error().message);
    return allowed.error();
  }
  auto found = runs_.find(request.run_id);
  if (request.run_id.empty() && runs_.size() == 1) {
    found = runs_.begin();
  }
  if (found == runs_.end()) {
    return Error{ErrorKind::kNotFound,
                 request.run_id.empty()
                     ? "this server has " + std::to_string(runs_.size()) +
                           " runs: name one with --rdzv-id (ddprun status lists them)"
                     : "this server knows no run '" + request.run_id + "'"};
  }
  const Controlled controlled{request.verb, request.node};
  const ControlAnswer answer = AnswerTo(found->second->state, controlled);
  if (!answer.accepted) {
    return Error{ErrorKind::kRefused, answer.text};
  }
  const RunId run_id = found->first;
  Advance(run_id, *found->second, controlled);
  return answer.text;
}

}  // namespace ddprun

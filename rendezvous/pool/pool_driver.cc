#include "rendezvous/pool/pool_driver.h"

#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

#include "common/overload.h"

namespace ddprun {

RendezvousHandlers PoolDriver::With(RendezvousHandlers handlers, Forget forget) {
  forget_ = std::move(forget);
  control_ = handlers.control;
  handlers.control = [this](const ControlRequest& request) { return OnControl(request); };
  handlers.pool = [this](const PoolReport& first, std::unique_ptr<PoolStream> stream) {
    OnStream(first, std::move(stream));
  };
  return handlers;
}

void PoolDriver::KeepDetached(std::vector<PoolRequest> earlier, Keep keep) {
  std::ranges::sort(earlier, {}, &PoolRequest::ticket);
  for (const PoolRequest& request : earlier) {
    core_.Restore(request, loop_.Now());
  }
  detached_ = kept_ = std::move(earlier);
  keep_ = std::move(keep);
  Settle();
}

void PoolDriver::OnStream(const PoolReport& first, std::unique_ptr<PoolStream> stream) {
  if (std::holds_alternative<PoolQuestion>(first)) {
    return Answer(std::move(stream));
  }
  const PoolOffer* const offer = std::get_if<PoolOffer>(&first);
  const Key key = offer != nullptr ? Key{Kind::kDaemon, offer->name}
                                   : Key{Kind::kLaunch, std::get<PoolRequest>(first).run_id};
  const Incarnation incarnation =
      offer != nullptr ? offer->incarnation : std::get<PoolRequest>(first).incarnation;
  const auto earlier = clients_.find(key);
  const bool there = earlier != clients_.end() && earlier->second.incarnation != incarnation;
  const Result<void> taken =
      there ? Error{ErrorKind::kRefused,
                    (offer != nullptr ? "a daemon" : "a run") + (" named '" + key.second) +
                        "' is in the pool already" +
                        (offer != nullptr ? ". Choose another --name, or stop that daemon" : "")}
            : Take(first);
  if (!taken) {
    return stream->End(taken.error());
  }
  stream->Listen(
      [this, key, incarnation](const PoolReport& report) { OnReport(key, incarnation, report); },
      [this, key, incarnation] { OnGone(key, incarnation); });
  clients_[key] = {std::move(stream), incarnation, loop_.Now(), first};
  Settle();
}

// Kept until the caller has read it.
void PoolDriver::Answer(std::unique_ptr<PoolStream> stream) {
  if (questions_.size() == kMostQuestions) {
    questions_.erase(questions_.begin());
  }
  stream->Send(core_.Status());
  stream->Listen([](const PoolReport&) {},
                 [this, asked = stream.get()] {
                   std::erase_if(questions_,
                                 [&](const auto& other) { return other.get() == asked; });
                 });
  questions_.push_back(std::move(stream));
}

Result<void> PoolDriver::Take(const PoolReport& report) {
  return std::visit(
      Overload{[](const PoolQuestion&) -> Result<void> {
                 return Error{ErrorKind::kInvalid, "a question has a stream of its own"};
               },
               [this](const PoolOffer& offer) { return core_.OnOffer(offer, loop_.Now()); },
               [this](const PoolRequest& request) { return core_.OnRequest(request); }},
      report);
}

void PoolDriver::OnReport(const Key& key, Incarnation incarnation, const PoolReport& report) {
  const auto found = clients_.find(key);
  if (found == clients_.end() || found->second.incarnation != incarnation) {
    return;
  }
  found->second.heard = loop_.Now();
  if (report == found->second.said) {
    return;
  }
  const PoolOffer* const offer = std::get_if<PoolOffer>(&report);
  const PoolRequest* const request = std::get_if<PoolRequest>(&report);
  const bool same = (offer != nullptr && key == Key{Kind::kDaemon, offer->name} &&
                     offer->incarnation == incarnation) ||
                    (request != nullptr && key == Key{Kind::kLaunch, request->run_id} &&
                     request->incarnation == incarnation);
  const Result<void> taken =
      same ? Take(report) : Error{ErrorKind::kInvalid, "the name changes within a stream"};
  if (!taken) {
    found->second.stream->End(taken.error());
    return OnGone(key, incarnation);
  }
  found->second.said = report;
  Settle();
}

void PoolDriver::OnGone(const Key& key, Incarnation incarnation) {
  const auto found = clients_.find(key);
  if (found == clients_.end() || found->second.incarnation != incarnation) {
    return;
  }
  const Time since =
      loop_.Now() >= found->second.heard + kPoolSilence ? found->second.heard : loop_.Now();
  clients_.erase(found);
  if (key.first == Kind::kDaemon) {
    core_.OnDaemonGone(key.second, incarnation, since);
  } else {
    core_.OnLaunchGone(key.second, incarnation, since);
  }
  Settle();
}

// Without a name the only run is meant, if it waits or trains.
Result<std::string> PoolDriver::OnStop(ControlRequest request) {
  if (request.run_id.empty()) {
    std::vector<PoolQueued> runs = core_.Status().runs;
    std::erase_if(runs, [](const PoolQueued& run) { return run.phase == PoolRunPhase::kOver; });
    if (runs.size() > 1) {
      return Error{ErrorKind::kNotFound, "the pool has " + std::to_string(runs.size()) +
                                             " runs. Name one (ddprun status lists them)"};
    }
    request.run_id = runs.empty() ? "" : runs.front().run_id;
  }
  if (!core_.StopWaiting(request.run_id)) {
    return control_(request);
  }
  Settle();
  return "run '" + request.run_id + "' leaves the queue of the pool";
}

// A daemon's name is that of its node, which leaves its run as any other.
Result<std::string> PoolDriver::OnControl(const ControlRequest& request) {
  if (request.verb != ControlVerb::kDrain) {
    return request.verb == ControlVerb::kStop ? OnStop(request) : control_(request);
  }
  if (!core_.Drain(request.node)) {
    return request.run_id.empty()
               ? Error{ErrorKind::kNotFound,
                       "the pool has no daemon '" + request.node + "' (ddprun status lists them)"}
               : control_(request);
  }
  std::string text = "daemon " + request.node + " gets no more runs until it is started again";
  ControlRequest leave = request;
  leave.run_id = core_.RunOf(request.node);
  Settle();
  if (leave.run_id.empty()) {
    return text;
  }
  const Result<std::string> left = control_(leave);
  return text + "; " + (left ? *left : left.error().message);
}

void PoolDriver::KeepNew() {
  std::vector<PoolRequest> detached = core_.Detached();
  if (keep_ && detached != detached_) {
    detached_ = std::move(detached);
    keep_(detached_, [this, now = detached_] {
      kept_ = now;
      Settle();
    });
  }
}

// Also true of a run of which nothing has to be kept.
bool PoolDriver::IsKept(const RunId& run_id) const {
  const auto has = [&run_id](const std::vector<PoolRequest>& requests) {
    return std::ranges::count(requests, run_id, &PoolRequest::run_id) > 0;
  };
  return !has(detached_) || has(kept_);
}

void PoolDriver::Settle() {
  const Time now = loop_.Now();
  const auto silent = std::ranges::find_if(
      clients_, [&](const auto& entry) { return entry.second.heard + kPoolSilence <= now; });
  if (silent != clients_.end()) {
    return OnGone(Key(silent->first), silent->second.incarnation);  // And looks again.
  }
  core_.Settle(now);
  for (const RunId& run_id : core_.TakeBegun()) {
    forget_(run_id, [this](const NodeId& node) { return core_.HasDaemon(node); });
  }
  KeepNew();
  std::optional<Time> wake = core_.NextWake();
  for (auto& [key, client] : clients_) {
    const Time end = client.heard + kPoolSilence;
    wake = std::min(wake.value_or(end), end);
    // No daemon starts a run that the next server would not know.
    if (!IsKept(key.first == Kind::kDaemon ? core_.OrderFor(key.second).run_id : key.second)) {
      continue;
    }
    PoolReply reply = key.first == Kind::kDaemon ? PoolReply(core_.OrderFor(key.second))
                                                 : PoolReply(core_.ViewFor(key.second));
    if (reply != client.sent) {
      client.stream->Send(reply);
      client.sent = std::move(reply);
    }
  }
  wake_.ArmAt(wake, [this] { Settle(); });
}

}  // namespace ddprun

#include "rendezvous/pool/pool_core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/exit_code.h"
#include "common/exit_status.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

// Of an earlier server, whose clock may have been ahead of this one's: a day, in microseconds.
constexpr std::uint64_t kMostAhead = 86'400'000'000;
constexpr std::size_t kMostSaidOfView = std::size_t{384} << 10;  // A message has 1 MiB.

// Nodes that stop on request end one by one; a run that fails ends on all nodes.
bool IsFailure(std::optional<int> code) {
  return code && *code != kExitOk && *code != kExitRestart && *code != kExitInterrupted &&
         *code != kExitTerminated;
}

constexpr std::size_t kLineOverhead = 32;  // Of a line in a message.

std::vector<SaidLine> Newest(const std::vector<SaidLine>& said, std::size_t most_bytes) {
  std::size_t bytes = 0;
  std::size_t first = said.size();
  const auto size = [&](std::size_t i) { return said[i].text.size() + kLineOverhead; };
  while (first > 0 && bytes + size(first - 1) <= most_bytes) {
    bytes += size(--first);
  }
  return {said.begin() + static_cast<std::ptrdiff_t>(first), said.end()};
}

}  // namespace

// ---- What arrives ----
Result<void> PoolCore::OnOffer(const PoolOffer& offer, Time now) {
  if (!daemons_.contains(offer.name) && daemons_.size() >= kMostDaemons) {
    return Error{ErrorKind::kRefused,
                 "the pool has " + std::to_string(kMostDaemons) + " daemons, its maximum"};
  }
  NumbersAreAbove(offer.part);
  for (const EndedPart& ended : offer.ended) {
    NumbersAreAbove(ended.part);
  }
  Daemon& daemon = daemons_[offer.name];
  daemon.drained = offer.incarnation == daemon.offer.incarnation && daemon.drained;
  daemon.offer = offer;
  daemon.gone.reset();
  for (const EndedPart& ended : offer.ended) {
    TakeEnded(offer.name, ended);
  }
  TakePart(offer, now);
  return {};
}

// Numbers of an earlier server, whose clock was ahead of this one's.
void PoolCore::NumbersAreAbove(std::uint64_t number) {
  if (number <= next_ + kMostAhead) {
    next_ = std::max(next_, number + 1);
  }
}

PoolCore::Part* PoolCore::Find(const RunId& run_id, const std::string& name, std::uint64_t number) {
  const auto run = runs_.find(run_id);
  if (run == runs_.end()) {
    return nullptr;
  }
  const auto part = std::ranges::find_if(run->second.parts, [&](const Part& known) {
    return known.name == name && known.number == number;
  });
  return part == run->second.parts.end() ? nullptr : &*part;
}

// Also of a part that an earlier server had given: its number is above the run's ticket, which that
// server had drawn first.
void PoolCore::TakeEnded(const std::string& name, const EndedPart& ended) {
  const auto found = runs_.find(ended.run_id);
  if (found == runs_.end() || found->second.over || ended.part < found->second.request.ticket) {
    return;
  }
  Run& run = found->second;
  Part* part = Find(ended.run_id, name, ended.part);
  if (part == nullptr) {
    part = &run.parts.emplace_back(Part{.name = name, .number = ended.part});
    run.placed = run.begun = true;
  }
  if (part->phase == PartPhase::kEnded) {
    return;
  }
  const bool has_ended = std::ranges::any_of(run.parts, [](const Part& other) {
    return other.phase == PartPhase::kEnded && !other.left && other.exit_code &&
           other.exit_code != kExitUnavailable;
  });
  part->phase = PartPhase::kEnded;
  part->exit_code = ended.exit_code;
  if (part->left || (has_ended && ended.exit_code == kExitUnavailable)) {
    return;  // A node that comes after the run's end does not find it.
  }
  run.last_code = ended.exit_code ? ended.exit_code : run.last_code;
  run.failure = !run.failure && IsFailure(ended.exit_code) ? ended.exit_code : run.failure;
  if (ended.exit_code == kExitOk) {
    run.failure.reset();  // It continued without the part that failed.
  }
}

void PoolCore::TakePart(const PoolOffer& offer, Time now) {
  for (auto& [id, run] : runs_) {
    for (Part& part : run.parts) {
      const bool same = id == offer.run_id && part.number == offer.part;
      if (part.name == offer.name && part.phase == PartPhase::kRunning && !same) {
        part.phase = PartPhase::kLost;  // Its machine has begun again.
      }
      if (part.name == offer.name && part.phase == PartPhase::kGiven && !same &&
          !offer.unfit.empty()) {
        part.phase = PartPhase::kLost;  // It cannot start it.
      }
    }
  }
  if (offer.run_id.empty()) {
    return;
  }
  if (Part* const part = Find(offer.run_id, offer.name, offer.part)) {
    if (part->phase != PartPhase::kEnded) {
      part->phase = PartPhase::kRunning;
    }
    return;
  }
  const auto found = runs_.find(offer.run_id);
  const bool is_new = found == runs_.end();
  if (is_new ? (judges_ && !offer.detached) || runs_.size() >= kMostPoolRequests
             : offer.part < found->second.request.ticket || found->second.over) {
    return;  // No run has it, so it will end.
  }
  Run& run = runs_[offer.run_id];
  if (is_new) {
    run.adopted = true;
    run.request.run_id = offer.run_id;
    run.request.detached = offer.detached;
    run.gone = std::max(now, judges_at_);
  }
  run.placed = run.begun = true;
  run.parts.push_back({.name = offer.name, .number = offer.part, .phase = PartPhase::kRunning});
}

Result<void> PoolCore::OnRequest(const PoolRequest& request) {
  const auto found = runs_.find(request.run_id);
  const bool known = found != runs_.end();
  if (known && !found->second.adopted && found->second.request.incarnation != request.incarnation) {
    const bool ends = found->second.gone && !found->second.request.detached;
    return Error{ErrorKind::kRefused, "a run named '" + request.run_id +
                                          "' is in the pool already" +
                                          (ends ? ", and is ending" : "")};
  }
  if (!known && runs_.size() >= kMostPoolRequests) {
    return Error{ErrorKind::kRefused,
                 "the pool has " + std::to_string(kMostPoolRequests) + " runs, its maximum"};
  }
  Run& run = runs_[request.run_id];
  // A ticket that cannot have been given yet, as after a clock that was far ahead, counts as none.
  const std::uint64_t told = request.ticket <= next_ + kMostAhead ? request.ticket : 0;
  const std::uint64_t earlier = std::max(told, run.request.ticket);
  run.request = request;
  run.request.ticket = earlier != 0 ? earlier : next_;
  NumbersAreAbove(run.request.ticket);
  run.inherited = run.inherited || run.adopted || (!known && request.placed);
  run.placed = run.placed || request.placed;
  run.begun = run.begun || run.placed;
  if (std::ranges::any_of(request.signals, AsksForTheEnd)) {
    StopWaiting(request.run_id);
  }
  run.adopted = false;
  run.gone.reset();
  if (!known) {
    for (const auto& [name, daemon] : daemons_) {
      for (const EndedPart& ended : daemon.offer.ended) {
        TakeEnded(name, ended);
      }
    }
  }
  return {};
}

void PoolCore::Restore(const PoolRequest& request, Time now) {
  if (request.detached && OnRequest(request)) {
    runs_.at(request.run_id).gone = now;
  }
}

std::vector<PoolRequest> PoolCore::Detached() const {
  std::vector<PoolRequest> requests;
  for (const auto& [id, run] : runs_) {
    if (run.request.detached && !run.adopted && !run.over) {
      requests.push_back(run.request);
      requests.back().placed = run.placed;
    }
  }
  return requests;
}

void PoolCore::OnDaemonGone(const std::string& name, Incarnation incarnation, Time now) {
  const auto found = daemons_.find(name);
  if (found != daemons_.end() && found->second.offer.incarnation == incarnation) {
    found->second.gone = now;
  }
}

void PoolCore::OnLaunchGone(const RunId& run_id, Incarnation incarnation, Time now) {
  const auto found = runs_.find(run_id);
  if (found != runs_.end() && found->second.request.incarnation == incarnation) {
    found->second.gone = now;
  }
}

bool PoolCore::Drain(const std::string& name) {
  const auto found = daemons_.find(name);
  if (found == daemons_.end()) {
    return false;
  }
  found->second.drained = true;
  for (auto& [id, run] : runs_) {
    for (Part& part : run.parts) {
      part.left = part.left || part.name == name;
    }
  }
  return true;
}

bool PoolCore::StopWaiting(const RunId& run_id) {
  const auto found = runs_.find(run_id);
  if (found == runs_.end() || found->second.placed) {
    return false;
  }
  found->second.over = true;
  found->second.last_code = kExitInterrupted;  // As of a run that is stopped once it trains.
  return true;
}

// ---- Decisions ----
void PoolCore::Settle(Time now) {
  recovers_ = recovers_ && now < recovers_until_;
  judges_ = judges_ || now >= judges_at_;
  LookAtDaemons(now);
  for (auto run = runs_.begin(); run != runs_.end();) {
    if (LookAtRun(run->second, now)) {
      ++run;
    } else {
      Remember(run->second);
      run = runs_.erase(run);
    }
  }
  if (!recovers_) {
    PlaceRuns();
  }
}

void PoolCore::LookAtDaemons(Time now) {
  std::erase_if(daemons_, [&](const auto& entry) {
    const Daemon& daemon = entry.second;
    if (!daemon.gone || now < *daemon.gone + kDaemonPatience) {
      return false;
    }
    for (auto& [id, run] : runs_) {
      for (Part& part : run.parts) {
        if (part.name == entry.first && part.lives()) {
          part.phase = PartPhase::kLost;
        }
      }
    }
    return true;
  });
}

std::size_t PoolCore::Living(const Run& run) {
  return static_cast<std::size_t>(
      std::ranges::count_if(run.parts, [](const Part& part) { return part.lives(); }));
}

bool PoolCore::LookAtRun(Run& run, Time now) const {
  const bool left = run.gone && !run.request.detached && now >= *run.gone + kLaunchPatience;
  if (left && !run.placed) {
    return false;
  }
  run.ends = run.ends || left;
  const std::size_t living = Living(run);
  const bool any_ended = std::ranges::any_of(
      run.parts, [](const Part& part) { return part.phase == PartPhase::kEnded && !part.left; });
  if (run.failure && living > 0 && living < run.request.min_nodes) {
    run.ends_at = run.ends_at.value_or(now + kFailureGrace);
  }
  run.ends = run.ends || (run.ends_at && now >= *run.ends_at);
  const bool nobody_tells = run.parts.empty() && judges_;
  if (run.placed && !recovers_ && living == 0 && (any_ended || run.ends || nobody_tells)) {
    run.over = true;
  }
  const bool lost_all = !run.parts.empty() && living == 0 && !any_ended;
  run.placed = run.placed && (run.over || run.adopted || !lost_all);
  return !run.over || !run.gone;
}

void PoolCore::Remember(const Run& run) {
  if (!run.request.detached || !run.over) {
    return;
  }
  const PoolView view = ViewFor(run.request.run_id);
  std::string state =
      view.exit_code ? "has ended with exit code " + std::to_string(*view.exit_code) : "has ended";
  for (const PoolPart& part : view.parts) {
    if (const SaidLine* const why = FirstError(part.said)) {
      state += ": " + part.name + ": " + why->text;
      break;
    }
  }
  std::erase_if(ended_,
                [&](const PoolQueued& other) { return other.run_id == run.request.run_id; });
  ended_.push_back({run.request.run_id, run.request.min_nodes, run.request.max_nodes,
                    PoolRunPhase::kOver, state.substr(0, kMaxPoolState)});
  if (ended_.size() > kMostPastRuns) {
    ended_.pop_front();
  }
}

bool PoolCore::TakesRuns(const Daemon& daemon) {
  return !daemon.gone && !daemon.drained && !daemon.offer.drained && daemon.offer.unfit.empty();
}

bool PoolCore::IsFree(const std::string& name, const Daemon& daemon) const {
  return TakesRuns(daemon) && daemon.offer.run_id.empty() && RunOf(name).empty();
}

std::vector<std::string> PoolCore::FreeFor(const Run& run) const {
  std::vector<std::string> names;
  for (const auto& [name, daemon] : daemons_) {
    const bool had_it = std::ranges::any_of(run.parts, [&name = name](const Part& part) {
      return part.name == name && part.phase == PartPhase::kEnded;
    });
    if (!had_it && IsFree(name, daemon)) {
      names.push_back(name);
    }
  }
  return names;
}

bool PoolCore::Give(Run& run) {
  const std::vector<std::string> free = FreeFor(run);
  const std::size_t living = Living(run);
  if (living + free.size() < run.request.min_nodes) {
    return false;
  }
  run.placed = true;
  if (!std::exchange(run.begun, true)) {
    begun_.push_back(run.request.run_id);
  }
  std::erase_if(run.parts, [](const Part& part) { return part.phase == PartPhase::kLost; });
  const std::size_t most =
      run.request.max_nodes - std::min<std::size_t>(living, run.request.max_nodes);
  for (std::size_t i = 0; i < std::min(free.size(), most); ++i) {
    run.parts.push_back({.name = free[i], .number = next_++});
  }
  return true;
}

std::vector<PoolCore::Run*> PoolCore::InOrder() {
  std::vector<Run*> runs;
  for (auto& [id, run] : runs_) {
    if (!run.over) {
      runs.push_back(&run);
    }
  }
  std::ranges::sort(runs, {}, [](const Run* run) { return run->request.ticket; });
  return runs;
}

void PoolCore::PlaceRuns() {
  const std::vector<Run*> runs = InOrder();
  const auto takes_more = [this](const Run& run) {
    return run.placed && !run.ends && !run.adopted && (judges_ || !run.inherited) &&
           std::ranges::none_of(run.parts, [](const Part& part) {
             return part.phase == PartPhase::kEnded && !part.left;
           });
  };
  bool enough = true;
  for (Run* const run : runs) {
    if (run->inherited && !judges_ && run->placed && Living(*run) < run->request.min_nodes) {
      enough = false;  // Its daemons may still come; until that is known it is not overtaken.
    }
    if (takes_more(*run) && Living(*run) < run->request.min_nodes) {
      enough = Give(*run) && enough;
    }
  }
  for (Run* const run : runs) {
    if (!run->placed) {
      enough = enough && Give(*run);
    }
  }
  for (Run* const run : runs) {
    if (enough && takes_more(*run)) {
      Give(*run);
    }
  }
}

std::optional<Time> PoolCore::NextWake() const {
  std::optional<Time> wake;
  const auto at = [&](Time time) { wake = wake ? std::min(*wake, time) : time; };
  if (recovers_) {
    at(recovers_until_);
  }
  if (!judges_) {
    at(judges_at_);
  }
  for (const auto& [name, daemon] : daemons_) {
    if (daemon.gone) {
      at(*daemon.gone + kDaemonPatience);
    }
  }
  for (const auto& [id, run] : runs_) {
    if (run.gone && !run.request.detached && !run.ends) {
      at(*run.gone + kLaunchPatience);
    }
    if (run.ends_at && !run.ends) {
      at(*run.ends_at);
    }
  }
  return wake;
}

// ---- What is said ----
RunId PoolCore::RunOf(const std::string& name) const {
  for (const auto& [id, run] : runs_) {
    if (std::ranges::any_of(run.parts,
                            [&](const Part& part) { return part.name == name && part.lives(); })) {
      return id;
    }
  }
  return "";
}

PoolOrder PoolCore::OrderFor(const std::string& name) const {
  const auto found = daemons_.find(name);
  PoolOrder order;
  if (found == daemons_.end()) {
    return order;
  }
  const Daemon& daemon = found->second;
  order.drained = daemon.drained;
  order.run_id = RunOf(name);
  if (order.run_id.empty()) {
    order.run_id = daemon.offer.run_id;
    order.part = daemon.offer.part;
    order.end = judges_ && !order.run_id.empty() && !daemon.offer.detached;  // No run has it.
    return order;
  }
  const Run& run = runs_.at(order.run_id);
  const Part& part = *std::ranges::find_if(
      run.parts, [&](const Part& known) { return known.name == name && known.lives(); });
  order.part = part.number;
  order.signals = run.request.signals;
  order.detached = run.request.detached;
  order.end = run.ends;
  if (part.phase == PartPhase::kGiven) {
    order.directory = run.request.directory;
    order.args = run.request.args;
  }
  return order;
}

PoolView PoolCore::ViewFor(const RunId& run_id) const {
  const Run& run = runs_.at(run_id);
  PoolView view{.ticket = run.request.ticket, .placed = run.placed, .over = run.over};
  view.exit_code = run.failure ? run.failure : run.last_code;
  if (!run.placed && !run.over) {
    view.place = 1;
    for (const auto& [id, other] : runs_) {
      view.place +=
          !other.placed && !other.over && other.request.ticket < run.request.ticket ? 1 : 0;
    }
    view.waits = WaitsFor(run, view.place);
  }
  for (const Part& part : run.parts) {
    PoolPart shown{.name = part.name, .ended = !part.lives()};
    const auto daemon = daemons_.find(part.name);
    if (daemon != daemons_.end() && daemon->second.offer.said_part == part.number) {
      shown.said = Newest(daemon->second.offer.said, kMostSaidOfView / run.parts.size());
    }
    view.parts.push_back(std::move(shown));
  }
  return view;
}

std::string PoolCore::WaitsFor(const Run& run, std::size_t place) const {
  if (recovers_) {
    return "the pool's server has just started and waits for its daemons";
  }
  const std::string needs = "it needs " + CountOf(run.request.min_nodes, "daemon");
  const auto usable = static_cast<std::size_t>(
      std::ranges::count_if(daemons_, [](const auto& entry) { return TakesRuns(entry.second); }));
  if (usable < run.request.min_nodes) {
    return needs + ", and the pool has " + std::to_string(usable) + " that can take a run";
  }
  if (place > 1) {
    return "place " + std::to_string(place) + " in the queue";
  }
  const std::size_t free = FreeFor(run).size();
  return needs + ", and " +
         (free == 0   ? "none is"
          : free == 1 ? "1 is"
                      : std::to_string(free) + " are") +
         " free";
}

std::string PoolCore::StateOf(const std::string& name, const Daemon& daemon) const {
  const RunId run = RunOf(name).empty() ? daemon.offer.run_id : RunOf(name);
  std::string state = daemon.drained || daemon.offer.drained ? "drained" : "";
  if (!daemon.offer.unfit.empty()) {
    state += (state.empty() ? "" : ", ") + std::string("unfit: ") + daemon.offer.unfit;
  }
  if (daemon.gone) {
    state += (state.empty() ? "" : ", ") + std::string("not connected");
  }
  if (!run.empty()) {
    state += (state.empty() ? "" : ", ") + std::string("run ") + run;
  }
  return state.empty() ? "free" : state.substr(0, kMaxPoolState);
}

PoolStatus PoolCore::Status() const {
  PoolStatus status;
  for (const auto& [name, daemon] : daemons_) {
    status.members.push_back({name, daemon.offer.facts, StateOf(name, daemon)});
  }
  std::vector<std::pair<std::uint64_t, RunId>> by_ticket;
  for (const auto& [id, run] : runs_) {
    by_ticket.emplace_back(run.request.ticket, id);
  }
  std::ranges::sort(by_ticket);
  for (const auto& [ticket, id] : by_ticket) {
    const Run& run = runs_.at(id);
    const PoolView view = ViewFor(id);
    const auto [phase, words] = view.over ? std::pair(PoolRunPhase::kOver, std::string("over"))
                                : !view.placed
                                    ? std::pair(PoolRunPhase::kWaits, "waits: " + view.waits)
                                : run.ends ? std::pair(PoolRunPhase::kEnds, std::string("ends on"))
                                           : std::pair(PoolRunPhase::kRuns, std::string("runs on"));
    std::string state = words;
    for (const PoolPart& part : view.parts) {
      if (!part.ended && state.size() + part.name.size() < kMaxPoolState - 4) {
        state += " " + part.name;
      }
    }
    status.runs.push_back({id, run.request.min_nodes, run.request.max_nodes, phase, state});
  }
  for (const PoolQueued& run : ended_) {
    if (!runs_.contains(run.run_id)) {
      status.runs.push_back(run);
    }
  }
  return status;
}

}  // namespace ddprun

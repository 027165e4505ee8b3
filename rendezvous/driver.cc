#include "rendezvous/driver.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/wall_clock.h"
#include "rendezvous/core/control.h"
#include "rendezvous/core/ended_run.h"
#include "rendezvous/core/fencing.h"
#include "rendezvous/core/peers.h"
#include "rendezvous/core/recovery.h"
#include "rendezvous/core/retention.h"
#include "rendezvous/core/status.h"
#include "rendezvous/messages/describe.h"
#include "rendezvous/messages/lease.h"
#include "rendezvous/notice_level.h"

namespace ddprun {
namespace {

constexpr Duration kLastWords{2'000};  // For operators that follow the run's output.
constexpr Duration kLookAtAsks{50};

// In a large world calls are answered in batches: each single answer would wake several threads.
Time ParkedUntil(Time beat, Duration poll) {
  const Time until = beat + poll;
  if (poll < kLargeWorldsPoll) {
    return until;
  }
  return until - until.time_since_epoch() % (poll / kBatchesPerPoll);
}

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
      return Error{ErrorKind::kNotFound, NameOf(run.run_id) + " has no node '" + node +
                                             "' (ddprun status lists its nodes)"};
    }
  }
  return named.empty() ? std::vector<NodeId>(known.begin(), known.end()) : named;
}

}  // namespace

CoordinatorDriver::CoordinatorDriver(Loop& loop, const CoordinatorConfig& config)
    : loop_(loop),
      config_(config),
      lines_(loop),
      stay_(loop),
      requests_(loop, [this](const Membership& name) {
        const CoordinatorState* const run = StateOf(name.run_id);
        return run != nullptr && HasReported(*run, {name.node, name.incarnation});
      }) {}

RendezvousHandlers CoordinatorDriver::HandlersOf(std::function<CoordinatorDriver*()> serving) {
  static const Error kNotServing{ErrorKind::kUnavailable,
                                 "this node does not serve the rendezvous"};
  return {
      [serving](NodeReport report, std::shared_ptr<PendingSync> call) {
        if (CoordinatorDriver* const driver = serving()) {
          driver->OnReport(std::move(report), std::move(call));
        } else {
          call->Refuse(kNotServing);
        }
      },
      [serving](const CallName& name) {
        if (CoordinatorDriver* const driver = serving()) {
          driver->OnCancel(name);
        }
      },
      [serving](const RunId& run_id) -> Result<std::vector<RunStatus>> {
        const CoordinatorDriver* const driver = serving();
        return driver != nullptr ? driver->StatusOfRuns(run_id) : kNotServing;
      },
      [serving](const ControlRequest& request) -> Result<std::string> {
        CoordinatorDriver* const driver = serving();
        return driver != nullptr ? driver->OnControl(request) : kNotServing;
      },
      [serving](const Membership& name, std::unique_ptr<NodeStream> stream) {
        if (CoordinatorDriver* const driver = serving()) {
          driver->OnNode(name, std::move(stream));
        } else {
          stream->End(kNotServing);
        }
      },
      [serving](const AskStart& start, std::unique_ptr<OperatorStream> stream) {
        if (CoordinatorDriver* const driver = serving()) {
          driver->OnAsk(start, std::move(stream));
        } else {
          stream->End(kNotServing);
        }
      },
  };
}

void CoordinatorDriver::OnReport(NodeReport report, std::shared_ptr<PendingSync> call) {
  const RunId run_id = report.run_id;
  auto found = runs_.find(run_id);
  if (found == runs_.end()) {
    if (TellEnd(report, *call)) {
      return;
    }
    if (runs_.size() >= kMaxRuns && !ForgetARunThatWasLeft()) {
      call->Refuse({ErrorKind::kRefused, "this rendezvous server already serves " +
                                             std::to_string(kMaxRuns) +
                                             " runs, and each still has nodes"});
      return;
    }
    BeginRun(report);
    found = runs_.find(run_id);
  }
  RunEntry& run = *found->second;
  if (claim_good_) {
    run.state.claim_good = claim_good_->until;
    run.state.claim_lease = claim_good_->lease;
  }
  if (!IsNewest(run.state, report)) {
    call->Refuse({ErrorKind::kRefused, "a newer call of this node has arrived"});
    return;
  }
  // Nodes ignore a server whose term is lower than one that they have heard.
  if (const Term own = TermAfter(config_.term, report.term); own != config_.term) {
    if (on_later_term_) {
      call->Refuse({ErrorKind::kUnavailable, "a newer server has replaced this one"});
      loop_.Post([callback = on_later_term_, term = report.term] { callback(term); });
      return;
    }
    lines_.Say(LogLevel::kWarning, "a node has heard a later server",
               "node " + report.node +
                   " has heard from a newer server than this one (was this machine's clock set "
                   "back?): serving under a higher term [clock-differs]");
    config_.term = own;
    KeepInClaim();
  }
  const Time now = loop_.Now();
  const Duration poll =
      LeaseKnown(run.published_lease, LeaseOf(run.state, config_), now) / kPollsPerLease;
  // Counted from the beat returned, so that a repeated call is answered at once.
  const Time beat = report.term == config_.term
                        ? std::min(now, Time(std::chrono::microseconds(report.beat)))
                        : now;
  Parked parked{std::move(call), report.sequence, {}, ParkedUntil(beat, poll), report.events_seen};
  if (report.echo) {
    parked.echo = WithoutWords(*report.echo);
  }
  const NodeKey key{report.node, report.incarnation};
  Park(run, key, std::move(parked));
  TakeIn(run_id, run, key, std::exchange(report.events, {}));
  TakeDetails(run_id, run, key, std::exchange(report.rank_details, {}));
  Advance(run_id, run, Reported{std::move(report)});
}

CoordinatorDriver::RunEntry::RunEntry(Loop& loop)
    : timer(loop), kept_since{loop.Now(), {UnixMilliseconds()}} {}

CoordinatorDriver::RunEntry& CoordinatorDriver::BeginRun(const NodeReport& report) {
  RunEntry& run = *runs_.emplace(report.run_id, std::make_unique<RunEntry>(loop_)).first->second;
  had_runs_ = true;
  const EndedRun* const ended = FindEnded(ended_, report.run_id);
  // Nodes of the ended run may be about to find this server, which just took over. They must not
  // join a new run.
  const bool just_took_over = StaysFor() > Duration{0};
  if (ended != nullptr && (just_took_over || IsOfEnded(*ended, report))) {
    run.state = Restore(*ended, loop_.Now());
    return run;
  }
  if (MaySucceed(report.spec)) {
    run.state = Succeed(loop_.Now());
    run.state.recovery.died = died_;
  }
  const bool told = took_over_ && claim_good_;  // Its predecessor's claim, how late machines are.
  if (!config_.proven && !told) {
    run.state.lateness = Unproven(config_.long_lease, loop_.Now());
  }
  run.state.run_id = report.run_id;
  run.state.newest = forgotten_;
  if (ended != nullptr) {  // A new run with the name of an ended one.
    std::erase_if(ended_, [&](const EndedRun& other) { return other.run_id == report.run_id; });
    KeepInClaim();
  }
  return run;
}

void CoordinatorDriver::OnCancel(const CallName& name) {
  const auto found = runs_.find(name.run_id);
  if (found == runs_.end()) {
    return;
  }
  RunEntry& run = *found->second;
  const auto parked = run.parked.find({name.node, name.incarnation});
  if (parked != run.parked.end() && parked->second.sequence == name.sequence) {
    Unpark(run, parked->first);
  }
  Advance(name.run_id, run, CallEnded{name.node, name.incarnation, name.sequence, true});
}

void CoordinatorDriver::Feed(const RunId& run_id, const CoordinatorEvent& event) {
  if (const auto found = runs_.find(run_id); found != runs_.end()) {
    Advance(run_id, *found->second, event);
  }
}

CoordinatorEffects CoordinatorDriver::TakeStep(CoordinatorState& state,
                                               const CoordinatorEvent& event, Time now) {
  return Step(state, config_, event, now);
}

void CoordinatorDriver::Decide(const RunId& run_id, RunEntry& run, const CoordinatorEvent& event) {
  CoordinatorEffects effects = TakeStep(run.state, event, loop_.Now());
  Tell(run_id, run, std::move(effects.events));
  if (!effects.evidence.empty()) {
    requests_.Send(run_id, {.kind = RequestKind::kEvidence}, effects.evidence);
  }
  if (note_run_) {
    note_run_(run.state);
  }
  if (effects.ended && keep_outcomes_) {
    unkept_.insert(run_id);
    RememberEnd(ToRemember(run_id, run.state.newest, *run.state.outcome, config_.term));
  }
}

void CoordinatorDriver::Advance(const RunId& run_id, RunEntry& run, const CoordinatorEvent& event) {
  loop_.CheckOnLoop();
  Decide(run_id, run, event);
  const auto* const reported = std::get_if<Reported>(&event);
  std::vector<NodeKey> keys;
  if (run.edition != run.state.edition) {
    for (const auto& [key, parked] : run.parked) {
      keys.push_back(key);
    }
  } else {
    if (reported != nullptr) {
      keys.push_back({reported->report.node, reported->report.incarnation});
    }
    const Time now = loop_.Now();
    for (auto it = run.due.begin(); it != run.due.end() && it->first <= now; ++it) {
      keys.push_back(it->second);
    }
  }
  run.edition = run.state.edition;
  for (const NodeKey& key : keys) {
    AnswerIfDue(run_id, run, key);
  }
  Arm(run_id, run);
}

void CoordinatorDriver::Park(RunEntry& run, const NodeKey& key, Parked call) {
  Unpark(run, key);  // An older call is dropped, which refuses it as superseded.
  run.due.emplace(call.until, key);
  run.parked.emplace(key, std::move(call));
}

std::shared_ptr<PendingSync> CoordinatorDriver::Unpark(RunEntry& run, const NodeKey& key) {
  const auto found = run.parked.find(key);
  if (found == run.parked.end()) {
    return nullptr;
  }
  run.due.erase({found->second.until, key});
  std::shared_ptr<PendingSync> call = std::move(found->second.call);
  run.parked.erase(found);
  return call;
}

void CoordinatorDriver::AnswerIfDue(const RunId& run_id, RunEntry& run, const NodeKey& key) {
  const auto found = run.parked.find(key);
  if (found == run.parked.end()) {
    return;
  }
  const Time now = loop_.Now();
  const Parked& parked = found->second;
  Directive directive = DirectiveFor(run.state, config_, key.node, key.incarnation, now);
  if (parked.echo && SameDirective(directive, *parked.echo) && now < parked.until) {
    return;
  }
  const CallEnded ended{key.node, key.incarnation, parked.sequence, false};
  SyncReply reply = ReplyWith(run.state, std::move(directive));
  ObservePublished(run.published_lease, reply.lease, now);
  if (const auto told = run.told.find(key); told != run.told.end()) {
    reply.events_kept = told->second;
  }
  if (KeepsEvents(run.state, key)) {
    reply.events = run.history.After(parked.events_seen, kMostEventsAtOnce, kMostEventBytesAtOnce,
                                     config_.term.Next());
  }
  Unpark(run, key)->Answer(reply);
  Decide(run_id, run, ended);
}

void CoordinatorDriver::Arm(const RunId& run_id, RunEntry& run) {
  const Time now = loop_.Now();
  if (IsOver(run.state) && !run.forget) {
    run.forget = now + RememberedFor(run.state, config_);
  }
  EndIfUnneeded();
  std::optional<Time> wake = NextWake(run.state, config_);
  const auto consider = [&](Time when) { wake = wake ? std::min(*wake, when) : when; };
  if (!run.due.empty()) {
    consider(run.due.begin()->first);
  }
  if (run.forget) {
    consider(*run.forget);
  }
  if (wake && wake == run.armed) {
    return;
  }
  run.armed = wake;
  run.timer.ArmAt(wake, [this, run_id] {
    // Reports that have queued up behind a late timer are fed before any node is judged silent.
    loop_.Post([this, run_id] {
      const auto found = runs_.find(run_id);
      if (found != runs_.end()) {
        found->second->armed.reset();
      }
      if (found != runs_.end() && found->second->forget && loop_.Now() >= *found->second->forget) {
        ForgetRun(run_id);
        return;
      }
      Feed(run_id, Tick{});
    });
  });
}

SyncReply CoordinatorDriver::ReplyWith(const CoordinatorState& run, Directive directive) const {
  SyncReply reply;
  reply.peers = StorePeers(run, directive);
  reply.directive = std::move(directive);
  reply.beat = loop_.Now().time_since_epoch().count();
  reply.lease = LeaseOf(run, config_);
  reply.poll_period = reply.lease / kPollsPerLease;
  reply.term = config_.term;
  return reply;
}

void CoordinatorDriver::ClaimIsGood(const ClaimGood& good) {
  if (claim_good_ == good) {
    return;
  }
  claim_good_ = good;
  for (const auto& [run_id, run] : runs_) {
    Advance(run_id, *run, good);
  }
}

void CoordinatorDriver::Retire() {
  stay_.Cancel();
  when_unneeded_ = nullptr;
  on_later_term_ = nullptr;
  requests_.Close();
  for (const auto& [run_id, run] : runs_) {
    while (!run->parked.empty()) {  // In a fixed order, for the simulator.
      Unpark(*run, NodeKey(run->parked.begin()->first));
    }
  }
  runs_.clear();
}

void CoordinatorDriver::WhenUnneeded(std::function<void()> callback) {
  when_unneeded_ = std::move(callback);
  EndIfUnneeded();
}

void CoordinatorDriver::EndIfUnneeded() {
  if (!when_unneeded_ || NodesServed() > 0) {
    asked_until_.reset();
    return;
  }
  if (StaysFor() > Duration{0}) {
    stay_.ArmAt(stays_until_, [this] { EndIfUnneeded(); });
    return;
  }
  // Operators that follow the run's output get its last lines, if they take them in time.
  if (!asked_until_) {
    asked_until_ = loop_.Now() + kLastWords;
  }
  if (requests_.asked() && loop_.Now() < *asked_until_) {
    stay_.ArmAt(loop_.Now() + kLookAtAsks, [this] { EndIfUnneeded(); });
    return;
  }
  loop_.Post(std::exchange(when_unneeded_, nullptr));
}

void CoordinatorDriver::TakeOver(const std::optional<Died>& died, bool over) {
  took_over_ = loop_.Now();
  had_runs_ = over;  // The run that this server took over is known to have ended.
  died_ = died;
  stays_until_ = *took_over_ + std::max(config_.base_lease, config_.long_lease);
}

// A run that is first heard of later is begun as any other: nodes of an older world would call for
// recovery themselves.
bool CoordinatorDriver::MaySucceed(const RunSpec& spec) const {
  const Time now = loop_.Now();
  return took_over_ && (now < *stays_until_ || FenceFrom(spec, *stays_until_, now));
}

// ---- Events of a run ----
void CoordinatorDriver::Tell(const RunId& run_id, RunEntry& run, std::vector<RunEvent> events) {
  for (RunEvent& event : events) {
    if (!lines_.Say(LevelOf(event.level), event.reason, event.text)) {
      continue;
    }
    event.term = config_.term;
    event.when = {UnixMilliseconds()};
    event.told = loop_.Now();
    const RunEvent& told = run.history.Append(std::move(event));
    if (keep_events_) {
      keep_events_(run_id, told);
    }
  }
}

void CoordinatorDriver::TakeDetails(const RunId& run_id, RunEntry& run, const NodeKey& key,
                                    RankDetails details) {
  const Member* const member = FindMember(run.state, key);
  if (run.state.world && member != nullptr) {
    run.details.Take(key, run.state.world->generation, member->first_rank, std::move(details));
    Tell(run_id, run, run.details.NewlySlow(loop_.Now()));
  }
}

// Of a node that may have been in a world: an outsider's would only push others out.
void CoordinatorDriver::TakeIn(const RunId& run_id, RunEntry& run, const NodeKey& key,
                               std::vector<RunEvent> events) {
  const bool member = FindMember(run.state, key) != nullptr;
  const bool known = run.state.phase == Phase::kRecovering && run.state.nodes.contains(key);
  if (events.empty() || (!member && !known)) {
    return;
  }
  // Counted for each node: a node that invents a mark silences no other node.
  for (const RunEvent& event : events) {
    if (event.term < config_.term) {
      run.told[key] = std::max(run.told[key], event.mark());
    }
  }
  for (const RunEvent& event : run.history.Merge(std::move(events), config_.term)) {
    if (keep_events_) {
      keep_events_(run_id, event);
    }
  }
}

// ---- How runs end, and where that is kept ----
void CoordinatorDriver::UseClaim(const std::vector<EndedRun>& ended, std::size_t most,
                                 KeepOutcomes keep) {
  config_.claims = true;
  ended_ = ended;
  for (const EndedRun& run : ended_) {
    forgotten_ = std::max(forgotten_, run.newest);
  }
  most_in_claim_ = most;
  keep_outcomes_ = std::move(keep);
}

void CoordinatorDriver::OutcomesAreKept(const std::vector<EndedRun>& kept) {
  std::vector<RunId> told;
  for (const RunId& run_id : unkept_) {
    // Where more end at once than a claim takes, the first of them are in none.
    if (FindEnded(kept, run_id) != nullptr || FindEnded(InClaim(), run_id) == nullptr) {
      told.push_back(run_id);
    }
  }
  for (const RunId& run_id : told) {
    unkept_.erase(run_id);
    Feed(run_id, OutcomeKept{});
  }
}

// The run is not begun again for it: it would stand in the way of the next one of that name.
bool CoordinatorDriver::TellEnd(const NodeReport& report, PendingSync& call) {
  const EndedRun* const ended = FindEnded(ended_, report.run_id);
  if (ended == nullptr || report.hosting != Hosting::kNothing || report.term > config_.term ||
      !IsOfEnded(*ended, report)) {
    return false;
  }
  had_runs_ = true;
  const Time now = loop_.Now();
  CoordinatorState run = Restore(*ended, now);
  (void)Step(run, config_, Reported{report}, now);
  call.Answer(ReplyWith(run, DirectiveFor(run, config_, report.node, report.incarnation, now)));
  return true;
}

std::vector<EndedRun> CoordinatorDriver::InClaim() const {
  const std::size_t most = std::min(ended_.size(), most_in_claim_);
  return {ended_.end() - static_cast<std::ptrdiff_t>(most), ended_.end()};
}

void CoordinatorDriver::KeepInClaim() {
  if (keep_outcomes_) {
    keep_outcomes_(InClaim());
  }
}

void CoordinatorDriver::RememberEnd(const EndedRun& run) {
  Remember(ended_, run, kMostEndedRuns);
  KeepInClaim();
}

void CoordinatorDriver::ForgetRun(const RunId& run_id) {
  const auto found = runs_.find(run_id);
  const CoordinatorState& state = found->second->state;
  RememberEnd(ToRemember(run_id, state.newest, *state.outcome, config_.term));
  Erase(found);
}

void CoordinatorDriver::ForgetForAnother(const RunId& run_id,
                                         const std::function<bool(const NodeId&)>& of_pool) {
  const auto found = runs_.find(run_id);
  if (found != runs_.end() &&
      std::ranges::any_of(found->second->state.nodes, [&](const auto& entry) {
        return !entry.second.lost && !of_pool(entry.first.node);
      })) {
    return;
  }
  if (std::erase_if(ended_, [&](const EndedRun& run) { return run.run_id == run_id; }) > 0) {
    KeepInClaim();
  }
  if (found != runs_.end()) {
    Erase(found);
  }
}

void CoordinatorDriver::Erase(Runs::iterator run) {
  forgotten_ = std::max(forgotten_, run->second->state.newest);
  unkept_.erase(run->first);
  requests_.ForgetRun(run->first);
  runs_.erase(run);
}

bool CoordinatorDriver::ForgetARunThatWasLeft() {
  const auto when = [](const auto& run) { return run.second->forget.value_or(Time::max()); };
  const auto first = std::ranges::min_element(runs_, {}, when);
  if (first != runs_.end() && first->second->forget) {
    ForgetRun(RunId(first->first));
    return true;
  }
  const auto empty = std::ranges::find_if(
      runs_, [](const auto& run) { return NobodyHasBegun(run.second->state); });
  if (empty == runs_.end()) {
    return false;
  }
  Erase(empty);
  return true;
}

Duration CoordinatorDriver::StaysFor() const {
  const Time now = loop_.Now();
  return stays_until_ && now < *stays_until_ ? std::chrono::ceil<Duration>(*stays_until_ - now)
                                             : Duration{0};
}

bool CoordinatorDriver::RunsHaveEnded() const {
  return (had_runs_ || !took_over_) && std::all_of(runs_.begin(), runs_.end(), [](const auto& run) {
           return NoWorkersRemain(run.second->state);
         });
}

Duration CoordinatorDriver::LongestLease() const {
  Duration longest = config_.base_lease;
  for (const auto& [id, run] : runs_) {
    longest = std::max(longest, LeaseOf(run->state, config_));
  }
  return longest;
}

const CoordinatorState* CoordinatorDriver::StateOf(const RunId& run_id) const {
  const auto found = runs_.find(run_id);
  return found == runs_.end() ? nullptr : &found->second->state;
}

std::size_t CoordinatorDriver::NodesServed() const {
  std::size_t nodes = 0;
  for (const auto& [id, run] : runs_) {
    nodes += run->state.index.served;
  }
  return nodes;
}

// ---- Questions of people about the runs ----
Result<std::vector<RunStatus>> CoordinatorDriver::StatusOfRuns(const RunId& run_id) const {
  const Time now = loop_.Now();
  std::vector<RunStatus> statuses;
  for (const auto& [id, run] : runs_) {
    if (!run_id.empty() && run_id != id) {
      continue;
    }
    RunStatus status = StatusOf(run->state, config_, now);
    if (run_id.empty() && runs_.size() > 1) {  // A list: a caller that names the run gets the rest.
      status.more_nodes += static_cast<std::uint32_t>(status.nodes.size());
      status.nodes.clear();
      status.startups.clear();
    } else {
      AddEvents(run->history, run->kept_since, now, status);
      run->details.AddTo(status);
    }
    statuses.push_back(std::move(status));
  }
  if (statuses.empty() && !run_id.empty()) {
    if (const EndedRun* const ended = FindEnded(ended_, run_id)) {
      return std::vector{StatusOf(Restore(*ended, now), config_, now)};
    }
    return Error{ErrorKind::kNotFound, "this server knows no run '" + run_id + "'"};
  }
  return statuses;
}

std::optional<RunStatus> CoordinatorDriver::StatusOfRun(const RunId& run_id) const {
  auto runs = StatusOfRuns(run_id);
  return runs && !runs->empty() ? std::optional(std::move(runs->front())) : std::nullopt;
}

Result<void> CoordinatorDriver::MayOperate(const std::string& token) {
  Result<void> allowed = control_token_.Check(token);
  if (!allowed) {
    lines_.Say(LogLevel::kWarning, "refused an operator's request: " + allowed.error().message,
               "refused an operator's request (" + std::to_string(control_token_.refused()) +
                   " with a wrong token so far): " + allowed.error().message);
  }
  return allowed;
}

Result<RunId> CoordinatorDriver::RunNamed(const RunId& run_id) const {
  if (runs_.contains(run_id)) {
    return run_id;
  }
  if (!run_id.empty()) {
    return Error{ErrorKind::kNotFound, "this server knows no run '" + run_id + "'"};
  }
  std::vector<RunId> active;
  for (const auto& [id, run] : runs_) {
    if (!run->state.outcome && run->state.index.served > 0) {
      active.push_back(id);
    }
  }
  if (active.size() == 1 || runs_.size() == 1) {
    return active.empty() ? runs_.begin()->first : active.front();
  }
  if (runs_.empty()) {
    return Error{ErrorKind::kNotFound, "this server has no run"};
  }
  return Error{ErrorKind::kNotFound,
               "this server has " +
                   (active.empty() ? std::to_string(runs_.size()) + " runs, none of which is active"
                                   : std::to_string(active.size()) + " active runs") +
                   ". Name one (ddprun status lists them)"};
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

void CoordinatorDriver::OnAsk(const AskStart& start, std::unique_ptr<OperatorStream> stream) {
  RunId run_id;
  const auto nodes = [&]() -> Result<std::vector<NodeId>> {
    RETURN_IF_ERROR(MayOperate(start.token));
    ASSIGN_OR_RETURN(run_id, RunNamed(start.run_id));
    const CoordinatorState& run = runs_.at(run_id)->state;
    ASSIGN_OR_RETURN(std::vector<NodeId> asked, NodesAsked(run, start.nodes));
    const bool there = std::ranges::any_of(
        asked, [&](const NodeId& node) { return requests_.HasStream(run_id, node); });
    if (run.outcome && !there) {
      return Error{ErrorKind::kNotFound,
                   NameOf(run_id) +
                       " has ended. What its workers printed is only in the files of "
                       "its --log-dir, if it had one: ddprun logs DIR"};
    }
    return asked;
  }();
  if (nodes) {
    // A request that follows all nodes follows those that join later, too.
    requests_.OnOperator(run_id, start.spec, *nodes, std::move(stream),
                         start.spec.follow && start.nodes.empty());
  } else {
    stream->End(nodes.error());
  }
}

}  // namespace ddprun

// Feeds the coordinator cores of all runs of one server with what arrives, parks their calls and
// answers them when a directive changes or the poll period is over.
//
// No judgement here: rendezvous/core decides. Lives on the loop. Bounded: at most kMaxRuns runs. An
// ended run is forgotten some leases after every node knows its outcome, so that the run id can be
// used again; sooner if its place is needed. How it ended is remembered, for nodes of it that were
// cut off.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/loop.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/listener/control_token.h"
#include "rendezvous/listener/log_rate_limiter.h"
#include "rendezvous/messages/history.h"
#include "rendezvous/requests/operator_requests.h"
#include "rendezvous/transport.h"
#include "rendezvous/world_details.h"

namespace ddprun {

class CoordinatorDriver {
 public:
  static constexpr std::size_t kMaxRuns = 256;

  CoordinatorDriver(Loop& loop, const CoordinatorConfig& config);
  virtual ~CoordinatorDriver() = default;
  CoordinatorDriver(const CoordinatorDriver&) = delete;
  CoordinatorDriver& operator=(const CoordinatorDriver&) = delete;

  // Call it before anything arrives: this server has a claim, which names these runs as ended.
  // When another run ends, `keep` gets the last `most` ended runs for the claim. No outcome is
  // announced before OutcomesAreKept.
  using KeepOutcomes = std::function<void(const std::vector<EndedRun>&)>;
  void UseClaim(const std::vector<EndedRun>& ended, std::size_t most, KeepOutcomes keep);
  void OutcomesAreKept(const std::vector<EndedRun>& kept);

  // Call it before anything arrives: `note` sees each run after each step, before any node gets a
  // reply that follows from it. It must not wait for anything.
  using NoteRun = std::function<void(const CoordinatorState&)>;
  void OnStep(NoteRun note) { note_run_ = std::move(note); }

  // Call it before anything arrives: `keep` gets each event once it has its number, also events of
  // earlier servers that nodes have kept. It must not wait for anything.
  using KeepEvents = std::function<void(const RunId&, const RunEvent&)>;
  void TellEvents(KeepEvents keep) { keep_events_ = std::move(keep); }

  // Call it before anything arrives: another server served before this one. So no world is formed
  // until reports have shown which world the nodes still run. `died`: that server died with its
  // agent. `over`: that server's claim says that its run has ended, which late nodes must hear.
  void TakeOver(const std::optional<Died>& died, bool over);
  // `callback` is called when a node has heard a later server; unset: this server takes a later
  // term. It runs on the loop, and not from inside OnReport.
  void OnLaterTerm(std::function<void(Term)> callback) { on_later_term_ = std::move(callback); }
  // For a server that needs a claim: until when it is good.
  void ClaimIsGood(const ClaimGood& good);
  // Forgets a run whose nodes were killed or ended by their pool, so that the next run of this name
  // is a new one. A run with a node that is not `of_pool` is kept.
  void ForgetForAnother(const RunId& run_id, const std::function<bool(const NodeId&)>& of_pool);
  // Forgets every run, and refuses parked calls. Nothing may arrive from then on.
  void Retire();

  // The functions that a server's transports call. While none is `serving`, they refuse.
  static RendezvousHandlers HandlersOf(std::function<CoordinatorDriver*()> serving);
  RendezvousHandlers Handlers() {
    return HandlersOf([this] { return this; });
  }

  virtual void OnReport(NodeReport report, std::shared_ptr<PendingSync> call);
  virtual void OnCancel(const CallName& name);
  Result<std::vector<RunStatus>> StatusOfRuns(const RunId& run_id) const;
  // nullopt: this server does not know it.
  std::optional<RunStatus> StatusOfRun(const RunId& run_id) const;
  // Needs the token. If none was set, every request is refused.
  Result<std::string> OnControl(const ControlRequest& request);
  // An operator's request to nodes, which needs the token too; and the streams of those nodes.
  void OnAsk(const AskStart& start, std::unique_ptr<OperatorStream> stream);
  void OnNode(const Membership& name, std::unique_ptr<NodeStream> stream) {
    requests_.OnNode(name, std::move(stream));
  }
  void SetToken(std::string token) { control_token_.SetToken(std::move(token)); }

  // The number of nodes that still need this server: they are not lost, and have not acknowledged
  // the run's end.
  std::size_t NodesServed() const;

  // How long this server must stay. One that took over stays for a lease after its beginning: nodes
  // that it does not know may be about to find it, and must learn how their run ended.
  Duration StaysFor() const;

  // Whether no run of this server has workers any more. After a takeover it is false until a node
  // has reported.
  bool RunsHaveEnded() const;

  // The longest lease of its runs.
  Duration LongestLease() const;

  // Called on the loop when no node needs this server any more, soon if that is so already.
  void WhenUnneeded(std::function<void()> callback);

  // For tests and simulations. nullptr: there is no such run.
  const CoordinatorState* StateOf(const RunId& run_id) const;
  const CoordinatorConfig& config() const { return config_; }

 protected:
  // The core's Step, and the only one: a simulation looks at the state before it and after it.
  virtual CoordinatorEffects TakeStep(CoordinatorState& state, const CoordinatorEvent& event,
                                      Time now);

 private:
  struct Parked {
    std::shared_ptr<PendingSync> call;
    std::uint64_t sequence = 0;
    std::optional<Directive> echo;
    Time until;  // Answered then even if the directive is unchanged.
    EventMark events_seen;
  };
  struct RunEntry {
    explicit RunEntry(Loop& loop);
    CoordinatorState state;
    std::map<NodeKey, Parked> parked;
    std::set<std::pair<Time, NodeKey>> due;  // Of the parked calls: when their poll period is over.
    LoopTimer timer;
    std::optional<Time> armed;
    std::optional<Time> forget;
    PublishedLease published_lease;
    History history;
    KeptSince kept_since;
    WorldDetails details;
    std::map<NodeKey, EventMark> told;  // By node: its newest event of an earlier term.
    std::uint64_t edition = 0;          // The state's, when all parked calls were last compared.
  };

  using Runs = std::map<RunId, std::unique_ptr<RunEntry>>;

  void EndIfUnneeded();
  // Tells a node without workers how its run ended. False: it is no such node.
  bool TellEnd(const NodeReport& report, PendingSync& call);
  // Makes the state of a run that is not known yet.
  RunEntry& BeginRun(const NodeReport& report);
  void RememberEnd(const EndedRun& run);
  std::vector<EndedRun> InClaim() const;
  void KeepInClaim();
  // Another server preceded this one, and nodes that run what that formed may be yet to be heard.
  bool MaySucceed(const RunSpec& spec) const;
  void ForgetRun(const RunId& run_id);
  void Erase(Runs::iterator run);
  // Forgets the ended run that all nodes left first, or a run that never had a world and has no
  // node. False: there is none.
  bool ForgetARunThatWasLeft();
  // One Step of the core, and its effects.
  void Decide(const RunId& run_id, RunEntry& run, const CoordinatorEvent& event);
  void Feed(const RunId& run_id, const CoordinatorEvent& event);
  void Advance(const RunId& run_id, RunEntry& run, const CoordinatorEvent& event);
  void Park(RunEntry& run, const NodeKey& key, Parked call);
  // nullptr: no call of this node is parked.
  std::shared_ptr<PendingSync> Unpark(RunEntry& run, const NodeKey& key);
  // Answers if the directive is no longer the one that the call echoes, or the poll period is over.
  void AnswerIfDue(const RunId& run_id, RunEntry& run, const NodeKey& key);
  void Arm(const RunId& run_id, RunEntry& run);
  void Tell(const RunId& run_id, RunEntry& run, std::vector<RunEvent> events);
  // Takes events that a node has kept from an earlier server.
  void TakeIn(const RunId& run_id, RunEntry& run, const NodeKey& key, std::vector<RunEvent> events);
  Result<void> MayOperate(const std::string& token);
  // For an empty id: the only run.
  Result<RunId> RunNamed(const RunId& run_id) const;
  void TakeDetails(const RunId& run_id, RunEntry& run, const NodeKey& key, RankDetails details);
  SyncReply ReplyWith(const CoordinatorState& run, Directive directive) const;

  Loop& loop_;
  CoordinatorConfig config_;
  Runs runs_;
  std::function<void()> when_unneeded_;
  std::function<void(Term)> on_later_term_;  // None: this server takes a later term still.
  std::optional<Time> took_over_;
  std::optional<Died> died_;  // The server before this one.
  bool had_runs_ = false;
  std::optional<Time> stays_until_;
  std::optional<Time> asked_until_;  // Operators are answered until then; none: nodes need it.
  RateLimitedLog lines_;
  LoopTimer stay_;
  std::optional<ClaimGood> claim_good_;
  Generation forgotten_;  // Of any run that was: the same run id's next world comes after its last.
  std::vector<EndedRun> ended_;    // The oldest first.
  KeepOutcomes keep_outcomes_;     // None: no claim is held.
  std::size_t most_in_claim_ = 0;  // Runs that have ended.
  NoteRun note_run_;               // None: no one needs to know.
  KeepEvents keep_events_;         // None: they stay here alone.
  std::set<RunId> unkept_;         // Those whose outcome the claim does not have yet.
  ControlToken control_token_;
  OperatorRequests requests_;
};

}  // namespace ddprun

// Feeds the coordinator cores of all runs of one server with what arrives, parks their calls and
// answers them when a directive changes or the poll period is over.
//
// No judgement here: who runs when is rendezvous/core's. Lives on the loop. Bounded: at most
// kMaxRuns runs; an ended one is forgotten some leases after everybody knows its outcome, so that
// the same run id may be used again, and sooner where its place is needed. How it ended is
// remembered, for a node of it that was cut off.
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
#include "rendezvous/closeups.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/door/control_token.h"
#include "rendezvous/door/few_lines.h"
#include "rendezvous/journal.h"
#include "rendezvous/messages/history.h"
#include "rendezvous/road/errand_road.h"
#include "rendezvous/transport.h"

namespace ddprun {

class CoordinatorDriver {
 public:
  static constexpr std::size_t kMaxRuns = 256;

  CoordinatorDriver(Loop& loop, const CoordinatorConfig& config);
  virtual ~CoordinatorDriver() = default;
  CoordinatorDriver(const CoordinatorDriver&) = delete;
  CoordinatorDriver& operator=(const CoordinatorDriver&) = delete;

  // Before anything arrives: what must survive this server goes to the journal, and the runs that
  // an earlier one kept there are taken over.
  void UseJournal(std::unique_ptr<Journal> journal, const std::vector<RunRecord>& runs,
                  const std::vector<EndedRun>& ended);
  // Likewise where a claim has all that need survive: `keep` is told each time what it must say,
  // and no outcome is told before OutcomesAreKept.
  using KeepOutcomes = std::function<void(const std::vector<EndedRun>&)>;
  void UseClaim(const std::vector<EndedRun>& ended, KeepOutcomes keep);
  void OutcomesAreKept(const std::vector<EndedRun>& kept);

  // Likewise: `note` is told each newest record before anybody is told of what is in it. It must
  // not wait for anything.
  using NoteRecord = std::function<void(const RunRecord&)>;
  void OnRecord(NoteRecord note) { note_record_ = std::move(note); }

  // Before anything arrives: `keep` is told each event once it has its number, those too that nodes
  // have kept of an earlier server's. It must not wait for anything.
  using KeepEvents = std::function<void(const RunId&, const RunEvent&)>;
  void TellEvents(KeepEvents keep) { keep_events_ = std::move(keep); }

  // Before anything arrives: another server reigned before this one, so what its runs' nodes still
  // do is found out from their reports before anything is formed. `died`: it did so with its agent.
  void TakeOver(const std::optional<Died>& died);
  // A node has heard a later server: called instead of reigning after that one. On the loop, and
  // not from inside the report's arrival.
  void OnLaterTerm(std::function<void(Term)> callback) { on_later_term_ = std::move(callback); }
  // Only who holds a claim serves.
  void ClaimIsGood(const ClaimGood& good);
  // Forgets every run: parked calls are refused, nothing happens any more.
  void Retire();

  // What a server's transports call.
  RendezvousHandlers Handlers();

  virtual void OnReport(NodeReport report, std::shared_ptr<PendingSync> call);
  virtual void OnCancel(const CallName& name);
  Result<std::vector<RunStatus>> StatusOfRuns(const RunId& run_id) const;
  // Needs the token; without one set, nobody has it.
  Result<std::string> OnControl(const ControlRequest& request);
  // The same, for whoever wants something fetched from a run's nodes; these nodes' calls; and
  // either one's that is gone.
  void OnAsk(const Asking& asking, const std::shared_ptr<PendingAsk>& call);
  void OnRoad(const RoadCall& call, std::shared_ptr<PendingRoad> pending) {
    road_.OnRoad(call, std::move(pending));
  }
  void OnGone(const void* key) { road_.OnGone(key); }
  void SetToken(std::string token) { gate_.SetToken(std::move(token)); }

  // Nodes that still need this server: neither lost nor told, and acknowledged, how it ended.
  std::size_t NodesServed() const;

  // One that another server preceded stays for a lease after its beginning: nodes that it has never
  // heard of may be about to find it, and must hear how their run ended.
  Duration StaysFor() const;

  // No run of this server goes on, and if another server preceded it, it has heard what became of
  // that one's.
  bool RunsHaveEnded() const;

  // The longest that it tells a node.
  Duration LongestLease() const;

  // Called on the loop when nobody needs this server any more, at once if that is so already.
  void WhenUnneeded(std::function<void()> callback);

  // For who looks at every step. nullptr: no such run.
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
    Time until;  // Answered unchanged then.
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
    ToldLease told_lease;
    History history;
    KeptSince kept_since;
    Closeups closeups;
    std::map<NodeKey, EventMark> told;  // The newest of an earlier reign, by the node that told it.
    std::uint64_t edition = 0;          // Of the state when every parked call was last looked at.
  };

  void EndIfUnneeded();
  // False: it is no node without workers of a run that has ended.
  bool TellEnd(const NodeReport& report, PendingSync& call);
  // Makes the state of a run that is not known yet.
  RunEntry& BeginRun(const NodeReport& report);
  void BeginWith(const std::vector<EndedRun>& ended);
  void RememberEnd(const EndedRun& run);
  std::vector<EndedRun> InClaim() const;
  void ForgetRun(const RunId& run_id);
  // The one that everybody left first, or one that never had a world and has nobody; false: there
  // is none.
  bool ForgetARunThatWasLeft();
  // One Step, and what it asks for.
  void Decide(const RunId& run_id, RunEntry& run, const CoordinatorEvent& event);
  void Feed(const RunId& run_id, const CoordinatorEvent& event);
  void Advance(const RunId& run_id, RunEntry& run, const CoordinatorEvent& event);
  void Park(RunEntry& run, const NodeKey& key, Parked call);
  // nullptr: nothing is parked.
  std::shared_ptr<PendingSync> Unpark(RunEntry& run, const NodeKey& key);
  // If its directive is no longer the one it echoes, or it was parked for a poll period.
  void AnswerIfDue(const RunId& run_id, RunEntry& run, const NodeKey& key);
  void Arm(const RunId& run_id, RunEntry& run);
  void Tell(const RunId& run_id, RunEntry& run, std::vector<RunEvent> events);
  // What a node has kept of what an earlier server told.
  void TakeIn(const RunId& run_id, RunEntry& run, const NodeKey& key, std::vector<RunEvent> events);
  Result<void> MayOperate(const std::string& token);
  // Of an empty id: the only one.
  Result<RunId> RunNamed(const RunId& run_id) const;
  void TakeCloseup(const RunId& run_id, RunEntry& run, const NodeKey& key, Closeup closeup);
  SyncReply ReplyWith(const CoordinatorState& run, Directive directive) const;

  Loop& loop_;
  CoordinatorConfig config_;
  std::unique_ptr<Journal> journal_;  // None: nothing is kept.
  std::map<RunId, std::unique_ptr<RunEntry>> runs_;
  std::function<void()> when_unneeded_;
  std::function<void(Term)> on_later_term_;  // None: this server reigns after the later one.
  bool takes_over_ = false;
  std::optional<Died> died_;  // The server before this one.
  bool had_runs_ = false;
  std::optional<Time> stays_until_;
  std::optional<Time> asked_until_;  // Operators are answered; none: nodes need this server.
  FewLogLines lines_;
  LoopTimer stay_;
  std::optional<ClaimGood> claim_good_;
  Generation forgotten_;  // Of any run that was: the same run id's next world comes after its last.
  std::vector<EndedRun> ended_;            // The oldest first.
  KeepOutcomes keep_outcomes_;             // None: no claim is held.
  NoteRecord note_record_;                 // None: nobody needs to know.
  KeepEvents keep_events_;                 // None: they stay here alone.
  std::map<RunId, std::uint64_t> unkept_;  // The record of its outcome.
  bool retired_ = false;
  TokenGate gate_;
  ErrandRoad road_;
};

}  // namespace ddprun

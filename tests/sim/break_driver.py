#!/usr/bin/env python3
"""Makes copies of drivers, cores and of the checkpoint store each rule of which can be switched off.

break_driver.py OUT_DIR FOLDER/SOURCE.cc... -> OUT_DIR/broken_FOLDER_SOURCE.cc..., broken_rules.cc

Simulations prove with them that the rule is needed (ddprun_sim_broken --mutate=RULE). The sources
themselves know nothing of this: a rule is a place in a text, or several, and where that is not there
exactly once, this fails, so that no rule's proof gets lost unnoticed."""
import os
import re
import sys

import core_rules

# By file: rule, the text with what asks first between « and »; or the text as it is, and the one that asks.
RULES = {}
RULES["rendezvous/driver.cc"] = [
    # Parked calls count from the beat they return, so that a repeated one is answered at once.
    ("poll-from-beat", "const Time beat = «HAS && »report.term == config_.term"),
    # A caller without news is not answered.
    ("park", "if («HAS && »parked.echo && SameDirective"),
    # A caller whose directive has changed is answered at once,
    ("echo", "«(!HAS || »SameDirective(directive, *parked.echo)«)»"),
    # whoever's report brought it about.
    ("news", "if («HAS && »run.edition != run.state.edition) {"),
    # After the poll period every call is answered, with a newer beat.
    ("poll-end", "&& «(!HAS || »now < parked.until«)»"),
    # The newest call of a membership is parked; a report that it has overtaken is dropped.
    ("newest-call", 'if («HAS && Has("newest-report") && »!IsNewest(run.state, report)) {'),
    # Messages that have queued up behind a late timer are fed before a node is judged silent.
    ("feed-first", "    «Poster{»loop_«, HAS}».Post([this, run_id] {"),
    # A server's term is later than every other one that its nodes have heard.
    ("later-term", "«HAS && »own != config_.term) {"),
    # The core hears that a connection has closed,
    ("close-notice", "  «if (HAS) »Advance(name.run_id, run, CallEnded"),
    # and the call in it is not answered any more, but a newer one is.
    ("close-sequence", "«(!HAS || »parked->second.sequence == name.sequence«)»"),
    # The core hears that a call was answered.
    ("call-ended", "  «if (HAS) »Decide(run_id, run, ended);"),
    # Time alone may change something.
    ("timer", "std::optional<Time> wake = «HAS ? »NextWake(run.state, config_)« : std::nullopt»;"),
    # An ended run is forgotten,
    ("forget", "if («HAS && »IsOver(run.state) && !run.forget) {"),
    # but only when no node is to be expected any more that must hear how it ended,
    ("remember", "now + «(HAS ? 1 : 0) * »RememberedFor(run.state, config_);"),
    # and the next run of its name continues after its generations.
    ("after-the-forgotten", "state.newest = «HAS ? »forgotten_« : Generation{}»;"),
    # How a run ended is remembered for a node of it that comes late.
    ("ends", "    if («HAS && »TellEnd(report, *call)) {"),
    ("ends", "if («HAS && »ended != nullptr && (just_took_over || IsOfEnded(*ended, report))) {"),
    # The work of another server's nodes is found out before anything is formed.
    ("recover", "  if («HAS && »MaySucceed(report.spec)) {"),
    # A run that begins under a claim is bound by it.
    ("claim-of-new-runs", "  if («HAS && »claim_good_) {\n    run.state"),
    # A node that took the part over stays for those that have not found it yet.
    ("stay", "if («HAS && »StaysFor() > Duration{0}) {"),
]

RULES["rendezvous/failover/failover_driver.cc"] = [
    # No world is formed with a claim that may have been lost.
    ("good-claim", "if («HAS && »coordinator_ && state_.phase == FailoverPhase::kServing) {"),
    # A serving node steps down where a node has heard a later server,
    ("later-term-heard", "[this](Term term) { «if (HAS) »Feed(LaterTermHeard{term}); }"),
    # and no node is served by a server from which it has stepped down;
    ("retire", "  «if (HAS) »coordinator_->Retire();\n"),
    # what that had under way may still come back to it.
    ("retired", "  «if (HAS) »retired_.push_back(std::move(coordinator_));« else coordinator_.reset();»"),
    # A claim that it let go of need not go stale,
    ("let-go", "{ «if (HAS) »(void)claims->Move(claim); }"),
    # nor what it held when it ended,
    ("give-up", "  if («HAS && »state_.phase == FailoverPhase::kServing) {\n    GiveUp();"),
    # and who comes then knows whether there is a run to continue with.
    ("run-is-over", "ClosedClaim(state_, «HAS && »coordinator_->RunsHaveEnded())"),
    # A node listens only where it serves: bound in the hope to be first,
    ("close-where-second", "  server_.reset();  // Bound in the hope to be first.",
     "  if (HAS) server_.reset();"),
    # or until it stepped down.
    ("close-with-the-term", "  «if (HAS) »server_.reset();\n  loop_.RunOnDisk("),
    # A name that is looked up for ever holds no other work up.
    ("start-deadline", "  loop_.RunBounded(\n      «HAS ? »Lease()« : Duration{1'000'000'000}»,"),
    # Agents hear of a successor by their calls.
    ("heard", "      «if (HAS) »Feed(ServerHeard{reply.term, reply.lease});"),
    # A run's progress under another server is found out first.
    ("succeed", "    «if (HAS) »coordinator_->TakeOver(take.died, take.over);"),
    # A new term is later than all that were heard of.
    ("later-terms", "NewClaim(«HAS ? »take« : TakeClaim{take.number, {}, take.takes_over}», term_config.term,"),
    # How runs ended stands in the claim, from where the next one's holder knows it,
    ("successor-of-ends", "coordinator_->UseClaim(«HAS ? »claim.ended« : std::vector<EndedRun>()»,"),
    # before any caller hears of it; then they do.
    ("ends-are-kept", "          «if (HAS) »coordinator_->OutcomesAreKept(claim.ended);"),
    # The text that was read was so when the read began, not when it ended.
    ("slow-reads", "ClaimsRead{«HAS ? »began« : Time::max()», *found}"),
]
RULES["rendezvous/failover/sole_claim.cc"] = [
    # The state on disk is known to be.
    ("kept", "{ «if (HAS) »coordinator_.OutcomesAreKept(ended); }"),
    # A server that is started again knows how runs have ended,
    ("left-ends", "coordinator_.UseClaim(«HAS ? »claim_.ended« : std::vector<EndedRun>()»,"),
    # has a later term than the one before,
    ("left-term", "            .above = «HAS ? »last->term« : Term{}»,"),
    # and finds out first what that one's runs do.
    ("left-runs", "  if («HAS && »take.takes_over) {"),
]
RULES["rendezvous/failover/held_claim.cc"] = [
    # Of the dead only their own claim is closed.
    ("release-own",
     "if (!newest || newest->closed || «(HAS && (»newest->number != held.number || newest->term != held.term)«))» {"),
]

RULES["agent/driver.cc"] = [
    # Time alone may change something.
    ("agent-timer", "timer_.ArmAt(«HAS ? »NextWake(state_, config_)« : std::nullopt»,"),
    # A store ends before the next generation's begins,
    ("agent-store-end", "  «if (HAS) »parts_.stores.End();\n  if (placement.group_rank"),
    # on the node that was directed to have it;
    ("agent-store-begin", "  if («HAS && »placement.group_rank == 0) {"),
    # and when no node may need it any more.
    ("agent-unneeded-store", "  if («HAS && »!NeedsStore(state_)) {"),
    # It lets in the nodes of its world.
    ("agent-peers", "    «if (HAS) »NotePeers(reply);\n"),
    # The next one has a port of its own, which the coordinator learns.
    ("agent-offer", "Feed(AllGone{state_.placement->generation, «HAS ? »parts_.stores.Offer()« : state_.store»});"),
    ("agent-offer-after-failure", "started.error().message, «HAS ? »parts_.stores.Offer()« : state_.store»});"),
    # For each worker it is known whether it has said hello,
    ("agent-hello", "said_hello_[word.local_rank] = true;", "said_hello_[word.local_rank] = HAS;"),
    # in each generation anew.
    ("agent-hello-anew", "  «if (HAS || said_hello_.empty()) »said_hello_.assign(config_.workers, false);"),
    # How each ended is known before all are gone, however long its files take,
    ("agent-ends-first", "  «Teller{»remains_«, HAS}».Then([this] { Feed(AllGone"),
    # and in that order.
    ("agent-order-of-ends", "    «Teller{»remains_«, HAS}».Then([this, ended"),
    # A worker that has failed stops its peers before its files are read.
    ("agent-reacts-first", "  «if (HAS) »Feed(WorkerDying{ended"),
    # A node that was taken for lost comes back as another one.
    ("agent-incarnation", "*reply, «HAS ? »parts_.draw()« : state_.incarnation»})"),
    # The coordinator hears that a start lasts,
    ("agent-start-lasts", "      «if (HAS) »Feed(StartLasts{state_"),
    # and that it is over.
    ("agent-start-is-over", "  if («HAS && »lasted) {"),
]

RULES.update(core_rules.RULES)
RULES = {name: [rule if len(rule) == 3 else (rule[0], re.sub("«.*?»", "", rule[1], flags=re.S), re.sub("[«»]", "", rule[1]))
                for rule in rules] for name, rules in RULES.items()}

PRELUDE = """// Made by tests/sim/break_driver.py from the driver's own text.
#include "common/loop.h"
#include "tests/sim/rules.h"
"""
HELPERS = """
namespace ddprun {
namespace {
[[maybe_unused]] bool Has(const char* rule) { return !sim::Without(rule); }
struct Poster {
  Loop& loop;
  bool posts;
  void Post(std::function<void()> work) {
    if (posts) {
      loop.Post(std::move(work));
    } else {
      work();
    }
  }
};
template <class RemainsReader>
struct Teller {
  RemainsReader& left;
  bool waits;
  void Then(std::function<void()> call) {
    if (waits) {
      left.Then(std::move(call));
    } else {
      call();
    }
  }
};
}  // namespace
}  // namespace ddprun
"""
REGISTRY = """// Made by tests/sim/break_driver.py.
#include <cstdlib>

#include "tests/sim/rules.h"

[[maybe_unused]] static const bool added = [] {
  ddprun::sim::Rules().insert({NAMES});
  if (const char* const rule = std::getenv("DDPRUN_WITHOUT_RULE")) {  // Of broken_units.
    ddprun::sim::SwitchedOff() = rule;
  }
  return true;
}();
"""


def broken(path, rules):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for rule, as_it_is, asked in rules:
        if text.count(as_it_is) != 1:
            sys.exit(f"{path}: the rule '{rule}' of {sys.argv[0]} is not there exactly once:\n  {as_it_is}")
        text = text.replace(as_it_is, asked.replace("HAS", f'Has("{rule}")'))
    includes, code = text.split("\nnamespace ddprun {\n", 1)
    return PRELUDE + includes + HELPERS + "\nnamespace ddprun {\n" + code


def main():
    folder, *sources = sys.argv[1:]
    texts = {"rules": REGISTRY.replace("NAMES", ", ".join(
        f'"{rule}"' for rules in RULES.values() for rule, _, _ in rules))}
    for path in sources:
        name = next(name for name in RULES if path.endswith("/" + name))
        texts[name.removesuffix(".cc").replace("/", "_")] = broken(path, RULES[name])
    for name, text in texts.items():
        with open(os.path.join(folder, f"broken_{name}.cc"), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes a copy of the coordinator's driver each rule of which can be switched off.

break_driver.py rendezvous/driver.cc OUT.cc

Simulations prove with it that the rule is needed (ddprun_sim_broken --mutate=RULE). The driver
itself knows nothing of this: a rule is a place in its text, and where that is not there exactly
once, this fails, so that nobody loses a rule's proof without noticing."""
import sys

# Rule, the text as it is, the text that asks first.
RULES = [
    # Parked calls count from the beat they return, so that a repeated one is answered at once.
    ("poll-from-beat", "const Time beat = report.term == config_.term",
     "const Time beat = HAS && report.term == config_.term"),
    # Who is told nothing new is not answered.
    ("park", "if (parked.echo && SameDirective", "if (HAS && parked.echo && SameDirective"),
    # Who is told something new is answered at once,
    ("echo", "SameDirective(directive, *parked.echo)",
     "(!HAS || SameDirective(directive, *parked.echo))"),
    # whoever's report brought it about.
    ("news", "if (run.edition != run.state.edition) {", "if (HAS && run.edition != run.state.edition) {"),
    # After the poll period every call is answered, with a newer beat.
    ("poll-end", "&& now < parked.until", "&& (!HAS || now < parked.until)"),
    # The newest call of a membership is parked; a report that it has overtaken is dropped.
    ("newest-call", "if (!IsNewest(run.state, report)) {", "if (HAS && !IsNewest(run.state, report)) {"),
    # What has queued up behind a late timer is fed before anybody is judged silent.
    ("feed-first", "    loop_.Post([this, run_id] {", "    Poster{loop_, HAS}.Post([this, run_id] {"),
    # A server reigns after every other one that its nodes have heard.
    ("later-term", "reign != config_.term) {", "HAS && reign != config_.term) {"),
    # The core hears that a connection has closed,
    ("close-notice", "  Advance(name.run_id, run, CallEnded", "  if (HAS) Advance(name.run_id, run, CallEnded"),
    # and the call in it is not answered any more, but a newer one is.
    ("close-sequence", "parked->second.sequence == name.sequence",
     "(!HAS || parked->second.sequence == name.sequence)"),
    # The core hears that a call was answered.
    ("call-ended", "  Decide(run_id, run, ended);", "  if (HAS) Decide(run_id, run, ended);"),
    # Time alone may change something.
    ("timer", "std::optional<Time> wake = NextWake(run.state, config_);",
     "std::optional<Time> wake = HAS ? NextWake(run.state, config_) : std::nullopt;"),
    # An ended run is forgotten,
    ("forget", "if (IsOver(run.state) && !run.forget) {", "if (HAS && IsOver(run.state) && !run.forget) {"),
    # but only when nobody is to be expected any more who must hear how it ended,
    ("remember", "now + kLeasesRemembered * LeaseOf", "now + (HAS ? kLeasesRemembered : 0) * LeaseOf"),
    # and the next run of its name goes on after its generations.
    ("after-the-forgotten", "state.newest = forgotten_;", "state.newest = HAS ? forgotten_ : Generation{};"),
    # A record that is on disk is known to be.
    ("kept", "      Feed(run_id, Persisted{number});", "      if (HAS) Feed(run_id, Persisted{number});"),
    # What another server's nodes still do is found out before anything is formed.
    ("recover", "    if (succeeds_) {\n      state", "    if (HAS && succeeds_) {\n      state"),
    # A run that begins under a claim is bound by it.
    ("claim-of-new-runs", "run.state.claim_good = claim_good_;", "if (HAS) run.state.claim_good = claim_good_;"),
    # Who took the part over stays for those that have not found it yet.
    ("stay", "if (StaysFor() > Duration{0}) {", "if (HAS && StaysFor() > Duration{0}) {"),
]

PRELUDE = """// Made by tests/sim/break_driver.py from the driver's own text.
#include <set>
#include "tests/sim/broken_driver.h"

namespace ddprun::sim {
static std::string broken_rule;
void BreakDriver(const std::string& rule) { broken_rule = rule; }
const std::set<std::string>& RulesOfDriver() {
  static const std::set<std::string> rules = {NAMES};
  return rules;
}
static bool Has(const char* rule) { return broken_rule != rule; }
}  // namespace ddprun::sim
"""
HELPERS = """
namespace ddprun {
namespace {
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
}  // namespace
}  // namespace ddprun
"""


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    for rule, as_it_is, asked in RULES:
        if text.count(as_it_is) != 1:
            sys.exit(f"{sys.argv[1]}: the rule '{rule}' of {sys.argv[0]} is not there exactly once:\n  {as_it_is}")
        text = text.replace(as_it_is, asked.replace("HAS", f'sim::Has("{rule}")'))
    includes, code = text.split("\nnamespace ddprun {\n", 1)
    names = ", ".join(f'"{rule}"' for rule, _, _ in RULES)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(PRELUDE.replace("NAMES", names) + includes + HELPERS + "\nnamespace ddprun {\n" + code)


if __name__ == "__main__":
    main()

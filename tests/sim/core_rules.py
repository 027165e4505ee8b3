"""Rules of the cores and of the checkpoint store, as break_driver.py has them."""

RULES = {}
RULES["rendezvous/core/coordinator.cc"] = [
    # A node that is directed to run and does not is lost.
    ("start-timeout", "    if («HAS && »step.now >= state.since + step.config.start_timeout) {"),
    # An overtaken report says what was,
    ("newest-report", "if («(HAS && »!IsNewest(state, report)«)» || "),
    # and so does the end of an overtaken call.
    ("newest-report", "«(HAS && »found->second.report.sequence != ended.sequence)«)» {"),
    # A lease ends at the beat that a report returns, plus the lease,
    ("lease-from-beat", "«(HAS ? »std::min(step.now, beat) «: step.now) »+ lease);"),
    # and a beat of another server's clock says nothing.
    ("beat-of-this-server", "} else if («!HAS || »report.term == step.config.term) {"),
    # Words after a run's end change nothing of it.
    ("one-outcome", "  if («HAS && »HasEnded(state)) {\n    return;\n  }\n  FenceAnew"),
    ("one-outcome", "  if (state.nodes.at(key).lost || «(HAS && »HasEnded(state))«)» {"),
    # A generation is above every one promised away, or heard of.
    ("names-above-floors", "  «if (HAS) »state.newest = std::max(state.newest, report.floor);"),
    ("names-above-worlds", "    «if (HAS) »state.newest = std::max(state.newest, report.placement->generation);"),
    # A closed connection is no lost node.
    ("disconnect-grace", "step.now >= *node.cancelled + «(HAS ? »grace« : Duration{0})») {"),
    # A state that a new server finds may have begun with a loss that it has not seen.
    ("recovered-not-charged", "BeginDrain(step, found->cause, true);", "BeginDrain(step, found->cause, HAS);"),
    # When a lost node was last heard tells a new server how long its workers may live.
    ("lost-memory", "  if («HAS && »state.phase == Phase::kRecovering) {\n    return;"),
    # A second agent of a node ousts the first only once that is not connected any more.
    ("successor-grace", "if («(!HAS || (»node.unconnected && step.now >= *node.unconnected + grace«))» &&"),
    # A tick that comes late extends leases.
    ("late-ticks", "if («!HAS || »now <= awake + kLate) {"),
    # How late members are, and this server, lengthens the lease;
    ("late-nodes", "  if («HAS && »counts && !node.call_open"),
    ("late-server", "  «if (HAS) »ObserveLate(state.lateness, now - awake,"),
    # not how late outsiders are;
    ("late-outsiders", "const bool counts = «!HAS || »node.member_lost ||"),
    # so does how late the claims are.
    ("late-claims", "state.claim_lease = «HAS ? »good.lease« : Duration{0}»;"),
    # Many closed connections are not as many lost nodes.
    ("several-at-once", "if («!HAS || »!ClosedWithOthers("),
]
RULES["rendezvous/core/roster.cc"] = [
    # A drain is complete when every node has promised,
    ("floors", "«(!HAS || »found->second.report.floor >= roster.world->generation)«)»;"),
    ("disconnect-grace", "*node.cancelled + «(HAS ? »config.disconnect_grace« : Duration{0})»);"),
    # A node that knows an end takes no part,
    ("ended", "node.refused || «(HAS && »node.acknowledged«)» || report.leaving"),
    # nor a node that its check refuses, or has not let in yet,
    ("unfit", "report.unkillable > 0 || «(HAS && »IsUnfit(report))«)» {"),
    # nor who has an earlier membership that may still host.
    ("earlier-self",
     "if («HAS && »!other.lost && !other.refused && !gone && other.joined < node.joined) {\n      return false;"),
    ("successor-grace", "if (node.unconnected && HasNewerMembership(roster, key)) {\n"
     "    due = std::min<Time>(due, *node.unconnected +",
     "if ((!HAS || node.unconnected) && HasNewerMembership(roster, key)) {\n"
     "    due = std::min<Time>(due, node.unconnected.value_or(Time{}) +"),
]
RULES["rendezvous/core/transitions.cc"] = [
    # A node that succeeded before its directive to stop has succeeded.
    ("late-success",
     "  if («(HAS ? »IsActive(state) «: state.phase == Phase::kRunning) »&& state.world->roll.unfinished.empty()) {"),
    # A run has succeeded when every node has.
    ("all-finished",
     "«(HAS ? »state.world->roll.unfinished.empty()« : state.world->roll.unfinished.size() < state.world->members.size())») {"),
    # The losing side of a split stops no node for a world that it must not form.
    ("growth-in-doubt", "may_stop = state.phase == Phase::kRunning && !«(HAS && »ClaimIsInDoubt(state, step.now)«)»;"),
    # and judged then, not with the first evidence.
    ("judging-at-the-end", "«(»!state.world->roll.undrained.empty()« && (HAS || state.drain->evidence.empty()))») {"),
]
RULES["rendezvous/core/transitions.cc"] += [
    # Bad news starts the drain at once: a failure,
    ("drain-at-once", "(«(HAS && »!report.failures.empty()«)» || report"),
    # workers that are being stopped,
    ("stopping", "«(HAS && »report.hosting == Hosting::kStopping)«)»;"),
    # or a promise not to run the world.
    ("promised-away", "const bool promised_away = «HAS && »report.floor"),
    # A lost node is remembered until it must have stopped.
    ("linger", "    node.forget = «HAS ? »node.expires + remembered« : step.now»;"),
    # No world is formed of fewer than the least,
    ("least", "  if («HAS && »ready < state.spec->min_nodes) {"),
    # nor while the claim is in doubt.
    ("claim-in-doubt", "  if («HAS && »ClaimIsInDoubt(state, step.now)) {"),
    # A run that cannot have enough nodes ends with the reason of those that cannot start.
    ("cannot-start", "    «if (HAS) »EndIfTooManyCannotStart(step);"),
    # Restarts without progress are spaced out.
    ("backoff", "  if («HAS && »state.budget.next_start && step.now"),
    # A loss makes it a change of membership.
    ("loss-not-charged", "  «if (HAS) »state.drain->membership |= lost;"),
]
RULES["rendezvous/core/judgement.cc"] = [
    # Every failure has a reason.
    ("reason", '«HAS ? »Describe(*judgement.root) + budget« : ""», judgement.root, true};'),
    # A failure after a planned stop began is its consequence,
    ("planned", "  if («(HAS && (»drain.planned || IsPlanned(drain.cause)«))» || "),
    # and a change of membership uses no restart.
    ("membership-not-charged", "  if («HAS && »drain.membership) {"),
    # Workers that ask to be started again are, uncharged,
    ("excused", "  const bool excused = «HAS && »asks && budget.may_excuse;"),
    # but never twice in a row.
    ("excused-once", "  budget.may_excuse = «!HAS || »!asks;"),
    # Nor does that hide a crash loop.
    ("excused-crash-loop", "  const bool stuck = «(HAS || !judgement.excused) && »IsCrashLoop("),
    # Equal errors that cannot heal use up no more of the budget.
    ("permanent", "  const bool permanent = «HAS && »IsPermanent("),
    # A killed worker delays no restart.
    ("killed-at-once", "  if («HAS && »WasKilledByOthers(judgement)) {"),
]
RULES["rendezvous/core/world.cc"] = [
    # A world is more than its generation's number.
    ("world-id", "         «(!HAS || »report.placement->world_id == world.id«)»;"),
]
RULES["rendezvous/core/directives.cc"] = [
    ("start-timeout", "        «if (HAS) »consider(state.since + config.start_timeout);"),
    # A node that hosts another world than the current one gets the directive to stop.
    ("disown", "  if («HAS && »hosts && !(current &&"),
    # An outcome is announced when it may not be forgotten any more.
    ("outcome-kept-first", "if («HAS && »!MayTellOutcome(state, config)) {"),
]
RULES["rendezvous/core/fencing.cc"] = [
    # A lost node is replaced once its own fence is over.
    ("fence-wait", "  if («!HAS || »!spec || spec->fence_after"),
    # That of a node which is back ends at once: if the same process says so,
    ("fence-process", "(«!HAS || »member.key.incarnation == report.incarnation ||"),
    # and has promised.
    ("fence-promise", "report.unkillable > 0 || «(HAS && »report.floor < roster.world->generation«)»"),
]
RULES["rendezvous/core/recovery.cc"] = [
    # A node that has a floor,
    ("recovering-floor", "«(HAS && »report.floor > Generation{}«)» || of_another;"),
    # or has heard another server, is one of a run that continues.
    ("recovering-term", " || «(HAS && »of_another«)»;"),
    # One that reports a newer world brings a new server back to recovering.
    ("newer-world", "return «HAS && »report.hosting != Hosting::kNothing && IsNews(recovery, report);"),
    # A world that has ended may have been followed.
    ("followed", "return AllTold(recovery) && («!HAS || »DiedInNewest(recovery) ||"),
    # The directives of its nodes stop it still.
    ("told-cause", "  return «HAS && »told ? *told : leaves"),
    # A missing node may have been answered until the new server began.
    ("fence-of-the-missing", "      «if (HAS) »member.fence = FenceFrom(roster.spec, answered, now);"),
    # One node has one place.
    ("one-place", "  «if (HAS) »LeaveOnePlaceEach(recovery);\n"),
    # No node waits for a node of which nothing is left,
    ("gone", "  return recovery.places.size() + «(HAS ? »nobody_s «: 0) »=="),
    # nor for its fence,
    ("gone-fence", "    if (member.lost && rank != GonePlace(recovery)) {", "    if (member.lost && !(HAS && rank == GonePlace(recovery))) {"),
    # which holds for the newest world that the dead server announced, and for no other.
    ("gone-of-that-world", "recovery.newest && «(!HAS || »recovery.died->world == recovery.newest->world_id«)»;"),
    # A new server waits for those that it has not heard.
    ("recovery-lease", "  return «HAS ? »std::max(since + lease, fence.value_or(since))« : since»;"),
]
RULES["rendezvous/messages/lateness.cc"] = [
    # No call is parked for longer than its node waits.
    ("known-lease", "  return «HAS && »now < published.until ?"),
]
RULES["rendezvous/core/failover/failover.cc"] = [
    # A node that misses the server watches the counter,
    ("standstill", "return «(!HAS || »began >= *state.still_since + kLeasesUntilStale * LeaseNow(state, config)«)» &&"),
    # and a still counter is not enough where the server answers.
    ("silence", "         «(!HAS || »Missed(state, config, now)«)»;\n"),
    # Only who holds the endpoint given makes the first claim.
    ("first", "    if («!HAS || »step.config.may_begin) {\n      Take(step);"),
    # The number of the own claim may be given again.
    ("own-claim", "  if («HAS ? »state.own == claim.term« : state.own.has_value()») {"),
    # The longest lease in a claim counts,
    ("longest-seen", "  «if (HAS) »Observe(state.seen, found.lease, step.now,"),
    # and how late the own process is;
    ("late-process", "  if («HAS && »state.phase != FailoverPhase::kTaking) {  //"),
    # it does not end with a term.
    ("late-successor", "  «if (HAS) »Observe(state.lateness, lease, step.now, kLatenessRemembered);"),
    # A node that may have died is looked at often.
    ("look-often", "    state.failed = true;\n", "    state.failed = HAS;\n"),
    # A node that follows a claim has a predecessor,
    ("predecessor", "const bool takes_over = «HAS && »last > 0 &&"),
    # also one that has ended, where it was of that run.
    ("known-run", "(!state.newest->over || «(HAS && »known)«)»;"),
    # or had followed its claim before it was closed.
    ("followed-run", "state.ever_heard || «(HAS && »state.was_open«)»;"),
    # A listing older than what is known is passed over.
    ("stale-listing", "  if («HAS && »state.newest && found.number <"),
    # A claim that cannot be read does not stand still.
    ("unreadable", "  NoteClaimsAnswer(step);\n  «if (HAS) »state.still_since.reset();"),
    # A later server is heard of.
    ("later-term-heard", "«HAS && »later.term > state.highest) {"),
    # A server whose time is over is no server.
    ("old-server", "  if («HAS && »heard.term < state.highest) {"),
    # Messages that it missed while it stood still are no silence.
    ("lenience", "    state.heard = step.now;\n    state.resumed_at = step.now;\n",
     "    if (HAS) state.heard = state.resumed_at = step.now;\n"),
]
RULES["rendezvous/core/failover/serving.cc"] = [
    # A holder that finds a newer claim steps down.
    ("superseded", "  if («HAS && »moved.superseded) {"),
    # An answer from before a sleep is as old as the sleep.
    ("answer-before-sleep", "  if («!HAS || »began >= step.state.resumed_at) {"),
    # Claims that take long lengthen the lease.
    ("late-claims", "  «if (HAS) »ObserveLate(step.state.lateness, step.now - step.state.asked,"),
    # No counter is written twice.
    ("counter-anew", "claim.counter = «HAS ? »++state.last_counter_written« : state.newest->counter + 1»;"),
    # A holder that cannot write forms no world, and steps down.
    ("step-down", "  return «HAS ? »std::min(state.last_write_began + patience, state.step_down_by)« : Time::max()»;"),
    # He counts by the lease that others know.
    ("told-lease", "  return «HAS ? »std::max(config.lease, state.published_lease)« : LeaseNow(state, config)»;"),
    ("step-down", "  return «!HAS ? Time::max() : »std::max(std::min(state.last_write_began + sure, state.step_down_by),"),
]


RULES["agent/core/node_agent.cc"] = [
    # An overtaken call's answer may have been revoked; promises bind where it is taken for the newest.
    ("newest-reply", "  if («HAS && »replied.sequence != state.sequence) {"),
    ("newest-reply", '«(HAS && Has("floor") && »generation <= state.floor«)» ||'),
    # Never a generation at or below the promised floor.
    ("floor", "  «if (HAS) »state.floor = std::max(state.floor, stop.generation);"),
    # An overtaken call is not listened to.
    ("older-server", "  if («HAS && »replied.reply.term < state.term) {"),
    # The fence's time runs from when the answered report was sent: the server's runs from when it came.
    ("fence-from-sent", "  state.answered = «HAS ? »state.sent« : step.now»;"),
    # A newer world ends the one that runs.
    ("next-world", "  if («HAS && »state.phase == AgentPhase::kRunning && state.placement->world_id != run"),
    # A node that has not passed its check starts nothing, under any directive.
    ("unfit-host", " || «(HAS && »!MayHost(state))«)» {"),
    # A worker that hangs does not end by TERM.
    ("end-of-a-hang", "    if («HAS && »stop.cause == StopCause::kHang) {"),
    # An answer that is as old as the fence starts nothing.
    ("late-answer", " && «HAS && »ComesTooLate(step)) {"),
]
RULES["agent/core/fencing.cc"] = [
    # An agent that is cut off kills its workers.
    ("fence-kill", "  const bool off = «!HAS || »config"),
    ("fence-kill", "if («!HAS || »fence == Duration{0} || age < fence) {"),
]

RULES["trainer/checkpoint/fence_log.cc"] = [
    # A world claims only after older ones.
    ("claim-order", "  if («HAS && »writer.ordered) {\n    ASSIGN"),
    # A world that has closed writes no more.
    ("closed", "    if («HAS && »newest.kind == RecordKind::kClose) {"),
    # A number that was freed is not the newest.
    ("too-far-behind", "  return «!HAS || »numbers.empty() || numbers.back() <"),
    # The last record of a run keeps its older worlds out.
    ("last-of-run", "&& «(!HAS || »!last_of_run)«)» {"),
    # A listing may be old.
    ("old-listing", "    if (!«HAS || (!»next && next.error().kind == ErrorKind::kNotFound)«)» {"),
    # A claim keeps the head.
    ("claim-keeps-head", "      «if (HAS) »claim.lineage = tail.newest->lineage;"),
    # It writes only behind its own records.
    ("commit-mine", "  if («HAS && »!SameWorld(tail->newest->writer, writer)) {"),
]
RULES["rendezvous/core/hang.cc"] = [
    # All waited for one, and some tell their next step later than others.
    ("ahead-for-long", "  if («HAS && »found.behind_count < found.count &&"),
    # Long work that all do for themselves is no hang.
    ("one-waits", "if (!found.all_late || «(HAS && »!found.waits«)» ||"),
    # Each member has reported since one of them was late.
    ("enquiry", "  if («HAS && »!enquiry->unheard.empty()) {"),
    # Whom they waited for has ended.
    ("ended-well", "  if («HAS && »watch.last_end && now <"),
]
RULES["trainer/checkpoint/checkpoint_store.cc"] = [
    # The last ones are kept,
    ("keep-last", "for (std::size_t i = «HAS ? »config_.keep_last« : 0»;"),
    ("keep-last", "first(«HAS ? »std::min(config_.keep_last, lineage_.size())« : 0»);"),
    # and the best one,
    ("keep-best", "return «(HAS && »IsKept(name)«)» ||"),
    # and no other process deletes it under a newer world.
    ("delete-as-holder", "  if (!names || «(HAS && »!fence_.CheckMine(*writer_))«)» {"),
    # A file that no record names as this training's is not removed.
    ("orphans",
     "    «if (HAS) »doomed.merge(Orphans(names, *claim_, fence_.Before(claim_->number)));« else doomed.insert(names.begin(), names.end());»"),
    # The loaded one is the head, not the largest step that lies there.
    ("lineage", "  lineage_ = claim->lineage;", """  lineage_ = claim->lineage;
  for (const std::string& name : HAS ? std::vector<std::string>() : seen) {
    const auto text = files_.Read(config_.directory / name / "state.json", 1 << 20);
    if (IsCheckpointName(name) && text && (lineage_.empty() || name > lineage_.front().directory)) {
      lineage_.insert(lineage_.begin(), CheckpointRef{name, Digest(*text)});
    }
  }"""),
]

#include "rendezvous/core/hang.h"

#include <algorithm>
#include <functional>
#include <map>

namespace ddprun {
namespace {

constexpr std::size_t kMostRises = 1'024;
constexpr Duration kOneRise{100};  // Rises that are closer than this count as one.

// The report of a member that hosts this world and has not finished it; else nullptr.
const NodeReport* HostReport(const Roster& roster, const Member& member) {
  const auto found = roster.nodes.find(member.key);
  if (member.lost || member.succeeded || found == roster.nodes.end()) {
    return nullptr;
  }
  const NodeReport& report = found->second.report;
  const bool hosts = report.hosting == Hosting::kWorkers && SpeaksOfWorld(report, *roster.world);
  return hosts ? &report : nullptr;
}

struct WorldProgress {
  std::vector<ProgressGroup> behind;  // At the lowest STEP.
  std::uint32_t behind_count = 0;
  std::uint32_t count = 0;  // Of all compared ranks.
  std::uint64_t next = 0;   // The lowest STEP of the ranks that are ahead; `highest`: the highest.
  std::uint64_t highest = 0;
  std::uint32_t running = 0;  // All running workers, also those that said no hello.
  std::uint32_t ended_well = 0;
  ProgressGroup ahead;      // The first of the ranks at the highest STEP.
  bool seen = false;        // Some ranks are only seen from outside (ProgressSource).
  bool all_late = false;    // All ranks are late.
  std::uint32_t known = 0;  // Ranks with progress of any source.
  bool waits = false;       // A rank waits in a collective, or none of them is counted.
  bool not_begun = false;   // A rank has not begun within --start-timeout.
};

// If some ranks are counted by their collectives, only those can be compared.
void KeepComparable(std::vector<ProgressGroup>& all) {
  const auto counted = [](const ProgressGroup& s) {
    return s.source == ProgressSource::kCollectives;
  };
  if (std::any_of(all.begin(), all.end(), counted)) {
    std::erase_if(all, [&](const ProgressGroup& s) { return !counted(s); });
  }
}

// Whether a rank is late. One that was heard before its first collective and not since may be
// preparing data, so it is not late, unless its peers are beyond the first collective of all ranks:
// it must have taken part in that.
std::function<bool(const ProgressGroup&)> IsLateIn(const std::vector<ProgressGroup>& all) {
  const bool together = std::any_of(all.begin(), all.end(), [](const ProgressGroup& s) {
    return s.source == ProgressSource::kCollectives && s.step > 1;
  });
  return [together](const ProgressGroup& s) {
    return s.late == s.count && (s.phase != kUnheard || together);
  };
}

bool IsNotBegun(const ProgressGroup& group) {
  return group.source == ProgressSource::kCollectives && group.phase == kNotBegun;
}

WorldProgress Collect(const Roster& roster) {
  std::vector<ProgressGroup> all;
  WorldProgress found;
  for (const Member& member : roster.world->members) {
    if (const NodeReport* const report = HostReport(roster, member)) {
      all.insert(all.end(), report->progress_groups.begin(), report->progress_groups.end());
      found.running += member.workers - std::min(member.workers, report->ended_well);
      found.ended_well += report->ended_well;
    } else {
      found.ended_well += member.succeeded ? member.workers : 0;
    }
  }
  if (all.empty()) {
    return found;
  }
  found.seen = std::any_of(all.begin(), all.end(), [](const ProgressGroup& s) {
    return s.source != ProgressSource::kTold;
  });
  found.all_late = std::all_of(all.begin(), all.end(), IsLateIn(all));
  for (const ProgressGroup& group : all) {
    found.known += group.count;
  }
  KeepComparable(all);
  found.waits = all.front().source != ProgressSource::kCollectives ||
                std::any_of(all.begin(), all.end(),
                            [](const ProgressGroup& s) { return s.phase == kInCollective; });
  found.not_begun = std::ranges::any_of(all, IsNotBegun);
  std::stable_sort(all.begin(), all.end(),
                   [](const ProgressGroup& a, const ProgressGroup& b) { return a.step < b.step; });
  for (const ProgressGroup& group : all) {
    found.count += group.count;
    if (group.step == all.front().step) {
      found.behind_count += group.count;
      found.behind.push_back(group);
    } else {
      found.next = found.next == 0 ? group.step : found.next;
    }
  }
  found.highest = all.back().step;
  found.ahead = *std::find_if(all.begin(), all.end(),
                              [&](const ProgressGroup& s) { return s.step == found.highest; });
  return found;
}

// The one worker whose PHASE is its own while all others of at least two share another.
const ProgressGroup* OddOne(const std::vector<ProgressGroup>& behind, std::string* others) {
  std::map<std::string, std::uint32_t> counts;
  for (const ProgressGroup& group : behind) {
    counts[group.phase] += group.count;
  }
  if (counts.size() != 2) {
    return nullptr;
  }
  const auto low = counts.begin()->second == 1 ? counts.begin() : std::next(counts.begin());
  const auto high = low == counts.begin() ? std::next(low) : counts.begin();
  if (low->second != 1 || high->second < 2) {
    return nullptr;
  }
  *others = high->first;
  return &*std::find_if(behind.begin(), behind.end(),
                        [&](const ProgressGroup& s) { return s.phase == low->first; });
}

std::string InPhase(const std::string& phase) {
  return phase.empty() ? "" : " in phase '" + phase + "'";
}

// "at step 118 in phase 'save'", "in collective 41"
std::string At(const ProgressGroup& group) {
  if (group.source == ProgressSource::kCollectives) {
    return group.phase == kBeforeJoining ? "before the first collective, and idle"
           : group.phase == kUnheard
               ? "at one of the first collectives, and silent since"
               : (group.phase == kInCollective ? "in collective " : "after collective ") +
                     std::to_string(group.step);
  }
  return "at step " + std::to_string(group.step) + InPhase(group.phase);
}

std::string NoMore(const ProgressGroup& group) {
  return group.source == ProgressSource::kCollectives ? "no collective begun for "
         : group.source == ProgressSource::kPrinted   ? "no step printed for "
                                                      : "no step for ";
}

// Each worker counts by itself, once a second, so counts of different ranks differ in time.
std::string Age(const ProgressGroup& group) {
  return group.source == ProgressSource::kCollectives ? "; counts may be 1 s old" : "";
}

std::string Ranks(std::uint32_t count) {
  return std::to_string(count) + " rank" + (count == 1 ? "" : "s");
}

// "its peers are at step 120, it is at 118"
std::string WhyBehind(const WorldProgress& found, const ProgressGroup& first) {
  const std::string at = At(first);
  if (found.count == 1) {
    return "it is " + at;
  }
  const std::string word = first.source == ProgressSource::kCollectives ? "collective" : "step";
  const std::string steps =
      found.next == found.highest
          ? word + " " + std::to_string(found.next)
          : word + "s " + std::to_string(found.next) + " to " + std::to_string(found.highest);
  if (found.behind_count == 1) {
    return "its peers are at " + steps + ", it is " + at + Age(first);
  }
  return "it and " + Ranks(found.behind_count - 1) + " more are " + at + ", the others at " +
         steps + Age(first);
}

// A failure that names the worker with this rank and its member.
WorkerFailure Blame(const Roster& roster, std::uint32_t rank, std::string why) {
  WorkerFailure failure;
  failure.rank = rank;
  failure.status = Killed{9};  // How it will end.
  failure.stopped_by_us = true;
  failure.hang = std::move(why);
  for (const Member& member : roster.world->members) {
    if (rank >= member.first_rank && rank < member.first_rank + member.workers) {
      failure.local_rank = rank - member.first_rank;
      if (const auto node = roster.nodes.find(member.key); node != roster.nodes.end()) {
        failure.local_rank += node->second.report.first_local_rank;
        failure.host = node->second.report.host;
      }
    }
  }
  return failure;
}

WorkerFailure BlameNobody(const Roster& roster, const ProgressGroup& first,
                          const std::string& why) {
  WorkerFailure failure = Blame(roster, first.first_rank, why);
  failure.nobody_lags = true;
  return failure;
}

// No rank makes progress, and some have not begun: the others wait for those.
WorkerFailure BlameForStart(const Roster& roster, const WorldProgress& found) {
  std::uint32_t not_begun = 0;
  for (const ProgressGroup& group : found.behind) {
    not_begun += IsNotBegun(group) ? group.count : 0;
  }
  const ProgressGroup& first = *std::ranges::find_if(found.behind, IsNotBegun);
  const std::string silent = "no step and no collective within " + FormatDuration(first.allowed) +
                             " of its start (--start-timeout; ";
  if (not_begun < found.count && not_begun * 2 <= found.count) {
    return Blame(roster, first.first_rank,
                 silent + Ranks(found.count - not_begun) + " wait" +
                     (found.count - not_begun == 1 ? "s" : "") + " for it)");
  }
  const std::string of = not_begun == found.running ? "all " : std::to_string(not_begun) + " of ";
  return BlameNobody(roster, first,
                     silent + of + Ranks(found.running) + (found.running == 1 ? ")" : " alike)"));
}

// For ranks that are only seen from outside: all must be late, and one must wait for the others.
std::optional<WorkerFailure> FindHangOfSeen(HangWatch& watch, const Roster& roster,
                                            const WorldProgress& found, Time now) {
  if (found.all_late && found.not_begun) {
    return BlameForStart(roster, found);
  }
  const bool counted = found.behind.front().source == ProgressSource::kCollectives;
  // A rank that has begun no collective yet may have long work to do before it.
  if (!found.all_late || !found.waits ||
      (counted ? found.known < found.running : found.highest == 0)) {
    return std::nullopt;
  }
  // A rank that the others waited for has just ended, so what is known of the others is older than
  // that. Counted only here, since it needs a look at all members.
  if (found.ended_well > watch.ended_well) {
    watch.ended_well = found.ended_well;
    watch.last_end = now;
  }
  if (watch.last_end && now < *watch.last_end + found.behind.front().allowed) {
    return std::nullopt;
  }
  const auto waits = [](const ProgressGroup& s) { return s.phase == kInCollective; };
  const auto idle = std::find_if_not(found.behind.begin(), found.behind.end(), waits);
  const ProgressGroup& first = idle == found.behind.end() ? found.behind.front() : *idle;
  const std::string silent = NoMore(first) + FormatDuration(first.allowed);
  if (found.count < found.running) {
    return BlameNobody(roster, first,
                       silent + " (" + (found.count == 1 ? "it is" : "the first of them is") + " " +
                           At(first) + "; nothing is known of " +
                           Ranks(found.running - found.count) + ")");
  }
  if (found.count == 1 || found.behind_count * 2 <= found.count) {
    return Blame(roster, first.first_rank, silent + " (" + WhyBehind(found, first) + ")");
  }
  if (found.behind_count < found.count) {  // The smaller group is ahead.
    return Blame(roster, found.ahead.first_rank,
                 silent + " (" + std::to_string(found.behind_count) + " of its peers are " +
                     At(first) + ", it is " + At(found.ahead) + Age(first) + ")");
  }
  std::uint32_t waiting = 0;
  for (const ProgressGroup& group : found.behind) {
    waiting += waits(group) ? group.count : 0;
  }
  if (counted && waiting < found.count && waiting * 2 >= found.count) {
    return Blame(
        roster, first.first_rank,
        silent + " (" + std::to_string(waiting) +
            (first.phase == kBeforeJoining ? " of its peers wait for it to join the process group)"
                                           : " of its peers wait in collective " +
                                                 std::to_string(first.step) + ", it has left it)"));
  }
  return BlameNobody(roster, first,
                     silent + " (all " + Ranks(found.count) + " are " + At(first) +
                         "; which of them is to blame is unknown)");
}

// If there are too many, only every second rise is kept. Then a rank seems to be ahead for a
// shorter time, which may spare a world but never blames a rank wrongly.
void NoteRise(std::vector<Rise>& rises, std::uint64_t step, Time now) {
  if (!rises.empty() && step <= rises.back().step) {
    return;
  }
  if (!rises.empty() && now < rises.back().when + kOneRise) {
    rises.back().step = step;
    return;
  }
  if (rises.size() >= kMostRises) {
    for (std::size_t i = 0; 2 * i + 1 < rises.size(); ++i) {
      rises[i] = rises[2 * i + 1];
    }
    rises.resize(rises.size() / 2);
  }
  rises.push_back({now, step});
}

// Whether for all of that time a rank was beyond this STEP.
bool WasAhead(const std::vector<Rise>& rises, std::uint64_t step, Time now, Duration lasts) {
  const auto first = std::find_if(rises.begin(), rises.end(),
                                  [step](const Rise& rise) { return rise.step > step; });
  return first != rises.end() && first->when + lasts <= now;
}

std::optional<WorkerFailure> FindHang(HangWatch& watch, const Roster& roster, Time now) {
  const WorldProgress found = Collect(roster);
  watch.at = found.behind.empty() ? "" : At(found.behind.front());
  if (!found.behind.empty() && found.seen) {
    return FindHangOfSeen(watch, roster, found, now);
  }
  if (found.behind.empty() ||
      std::any_of(found.behind.begin(), found.behind.end(),
                  [](const ProgressGroup& s) { return s.late < s.count; })) {
    return std::nullopt;
  }
  if (found.highest == 0 && found.count < found.running) {
    return std::nullopt;
  }
  const ProgressGroup& first =
      *std::min_element(found.behind.begin(), found.behind.end(),
                        [](const auto& a, const auto& b) { return a.first_rank < b.first_rank; });
  if (found.behind_count < found.count && !WasAhead(watch.rises, first.step, now, first.allowed)) {
    return std::nullopt;
  }
  const std::string silent = "no step for " + FormatDuration(first.allowed);
  if (found.count == 1 || found.behind_count * 2 <= found.count) {
    return Blame(roster, first.first_rank, silent + " (" + WhyBehind(found, first) + ")");
  }
  std::string others;
  if (const ProgressGroup* const odd = OddOne(found.behind, &others)) {
    return Blame(roster, odd->first_rank,
                 silent + " (its peers are" + (others.empty() ? " in no phase" : InPhase(others)) +
                     ", it is" + (odd->phase.empty() ? " in none" : InPhase(odd->phase)) +
                     ", all at step " + std::to_string(odd->step) + ")");
  }
  const bool same_phase =
      std::all_of(found.behind.begin(), found.behind.end(),
                  [&](const ProgressGroup& s) { return s.phase == first.phase; });
  return BlameNobody(roster, first,
                     silent + " (" +
                         (found.behind_count == found.count
                              ? "all " + Ranks(found.count)
                              : std::to_string(found.behind_count) + " of " + Ranks(found.count)) +
                         " are at step " + std::to_string(first.step) +
                         (same_phase ? InPhase(first.phase) : "") +
                         "; which of them is to blame is unknown)");
}

void NoteSteps(HangWatch& watch, const World& world, const NodeReport& report, Time now) {
  if (watch.generation != world.generation) {
    watch.generation = world.generation;
    watch.rises.clear();
    watch.last_end.reset();
    watch.ended_well = 0;
    watch.evidence.reset();
  }
  if (!SpeaksOfWorld(report, world)) {
    return;
  }
  for (const ProgressGroup& group : report.progress_groups) {
    if (group.source == ProgressSource::kTold && group.step > 0) {
      NoteRise(watch.rises, group.step, now);
    }
  }
}

}  // namespace

std::optional<WorkerFailure> LookForHang(HangWatch& watch, const Roster& roster, const NodeKey& key,
                                         const NodeReport& report, Time now) {
  NoteSteps(watch, *roster.world, report, now);
  std::optional<HangEnquiry>& enquiry = watch.enquiry;
  if (!enquiry || enquiry->generation != roster.world->generation) {
    if (!report.hung_rank) {
      return std::nullopt;
    }
    enquiry = HangEnquiry{roster.world->generation, {}};
    for (const Member& member : roster.world->members) {
      if (!member.hosted && !member.lost) {
        enquiry.reset();  // Its peers wait for its workers; a start deadline bounds that.
        return std::nullopt;
      }
      if (!member.lost && !member.succeeded) {
        enquiry->unheard.insert(member.key);
      }
    }
  }
  enquiry->unheard.erase(key);
  if (!enquiry->unheard.empty()) {
    return std::nullopt;  // A member that stays silent is lost after its lease, which drains the
                          // world anyway.
  }
  enquiry.reset();  // The next report of a late worker begins another enquiry.
  return FindHang(watch, roster, now);
}

}  // namespace ddprun

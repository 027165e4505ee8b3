// How long what led to a world took, part by part: from the first bad news, or from the run's first
// report, to the first step of all workers.
//
// Pure; decides nothing. Each part is measured on one clock: detect by the node that saw it, stop
// and form by this server, the rest by every node from the moment at which it got the Run
// directive, and the last of them counts. No two clocks are compared, so half a round trip, in
// which the directives travel, is in no part. Nor is the time from a worker's end to the kernel's
// news of it, which is not measured. A change of server forgets all of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/world.h"

namespace ddprun {

// Of one world. A part without a value was not there, or is not known (yet).
struct Startup {
  Term term;
  std::uint64_t number = 0;  // Of those of this term, from 1.
  Generation generation;     // That it led to.
  std::string cause;         // Why the world before ended, in words.
  std::string cause_word;    // The same in one word ("hang"); "start": no world was before.
  Duration age{0};           // Since it began; filled in when it is asked for.
  // From the end of a worker, or a lost node's last report, to the bad news.
  std::optional<Duration> detect;
  std::optional<Duration> stop;  // From the bad news to the last promise of the world's nodes.
  // From the last promise to the end of a pause (--restart-backoff).
  std::optional<Duration> backoff;
  std::optional<Duration> form;   // From that end, or the last promise, to the next world.
  std::optional<Duration> start;  // From the last node's Run directive to its workers' start.
  // From the workers' start until all have their state back (RESUME).
  std::optional<Duration> state;
  std::optional<Duration> first_step;  // From the workers' state to the last worker's first step.
  NodeId stopped_last;                 // Empty: it is the only one, or none was.
  NodeId started_last;
  NodeId restored_last;
  NodeId stepped_last;
  bool operator==(const Startup&) const = default;
};

// Of a point that all nodes of a world reach.
struct Reached {
  std::uint32_t nodes = 0;
  Duration last{0};
  NodeId node;
};

struct Opening {
  Startup known;  // Its cause, and the parts before the next world.
  Time began;
  Time since;                 // Of the part that lasts.
  std::uint32_t members = 0;  // Of the world that it led to; 0: none yet.
  bool told = false;          // All of it was reported to people.
  bool told_start = false;    // That workers run again was reported to people.
  Reached started;
  Reached restored;
  Reached stepped;
};

struct Startups {
  std::uint64_t begun = 0;
  std::vector<Startup> past;  // Oldest first, at most kMostStartups; the newest may grow.
  std::vector<Time> began;    // Of each.
  std::optional<Opening> open;
  bool steps = false;  // Some world's first step was known.
};

// For people.
struct StartupLine {
  bool first = false;  // Of the run: nothing was stopped for it.
  bool quiet = false;  // For the record alone.
  std::string text;
  Startup startup;
  Duration lost{0};  // 0: it is not known.
};

// Bad news, or a run's first report. Returns the line of the one before, if it was not logged.
std::optional<StartupLine> BeginStartup(Startups& startups, std::string cause,
                                        const std::string& word, Time now);

// Of bad news that came now.
void NoteDetected(Startups& startups, std::optional<Duration> detect, Time now);

// Nothing is left of the world before. `last`: the node whose report of it came last.
void NoteStopped(Startups& startups, std::string cause, const std::string& word, const NodeId& last,
                 Time now);

// `not_before`: until when the world was put off; nullopt: it was not.
void NoteFormed(Startups& startups, const World& world, std::optional<Time> not_before, Time now);

// Takes a member's report of it; the same again changes nothing. `seen`: its workers do not report
// steps themselves, so its first step stands for all members: often a single rank prints.
void NoteTimings(Startups& startups, Member& member, const StartTimings& timings, bool seen);

// Once: all workers have taken a step. Before that, where the run has never shown a step, that
// workers run again. `steps`: a step of the run is known.
std::optional<StartupLine> StartupToTell(Startups& startups, bool steps);

// The run ends, or the world does.
std::optional<StartupLine> EndStartup(Startups& startups, Time now);

// Without those that led to no world.
std::vector<Startup> StartupsAt(const Startups& startups, Time now);

// The sum of its parts, as far as they are known.
Duration TotalOf(const Startup& startup);

// "62 ms (detect 1, stop 8 (n1), form 3, start 20 (n0), load state 5, first step 25 (n0))"
std::string Describe(const Startup& startup);

}  // namespace ddprun

#include "rendezvous/core/startup/startup.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kMostCause = 256;

enum : std::uint8_t { kStarted = 1, kRestored = 2, kStepped = 4 };

Duration Rounded(std::chrono::microseconds duration) {
  return std::chrono::round<Duration>(std::max(duration, std::chrono::microseconds{0}));
}

std::string Cut(std::string text) {
  text.resize(std::min(text.size(), kMostCause));
  return text;
}

void Reach(Reached& reached, Member& member, std::uint8_t bit,
           const std::optional<Duration>& after) {
  if (!after || (member.reached & bit) != 0) {
    return;
  }
  member.reached |= bit;
  if (reached.nodes++ == 0 || *after > reached.last) {
    reached.last = *after;
    reached.node = member.key.node;
  }
}

void FillIn(const Opening& open, Startup& startup) {
  const auto all = [&](const Reached& reached) { return reached.nodes == open.members; };
  const auto name = [&](const Reached& reached) {
    return open.members > 1 ? reached.node : NodeId();
  };
  if (!all(open.started)) {
    return;
  }
  startup.start = open.started.last;
  startup.started_last = name(open.started);
  Duration until = open.started.last;
  if (all(open.restored)) {
    startup.state = std::max(open.restored.last, until) - until;
    startup.restored_last = name(open.restored);
    until += *startup.state;
  }
  if (all(open.stepped)) {
    startup.first_step = std::max(open.stepped.last, until) - until;
    startup.stepped_last = name(open.stepped);
  }
}

StartupLine LineOf(const Startup& startup, const char* start, const char* restart,
                   const char* end) {
  const bool first = !startup.stop;
  return {.first = first,
          .text = (first ? start : restart) + Describe(startup) + end,
          .startup = startup};
}

bool IsTold(const Startups& startups) {
  return !startups.open || startups.open->members == 0 || startups.open->told;
}

}  // namespace

std::optional<StartupLine> BeginStartup(Startups& startups, std::string cause,
                                        const std::string& word, Time now) {
  std::optional<StartupLine> line = EndStartup(startups, now);
  startups.open = Opening{};
  startups.open->known.cause = Cut(std::move(cause));
  startups.open->known.cause_word = word;
  startups.open->began = startups.open->since = now;
  return line;
}

void NoteDetected(Startups& startups, std::optional<Duration> detect, Time now) {
  if (startups.open && startups.open->began == now && !startups.open->known.detect) {
    startups.open->known.detect = detect;
  }
}

void NoteStopped(Startups& startups, std::string cause, const std::string& word, const NodeId& last,
                 Time now) {
  Opening& open = *startups.open;
  open.known.cause = Cut(std::move(cause));
  open.known.cause_word = word;
  open.known.stop = Rounded(now - open.since);
  open.known.stopped_last = last;
  open.since = now;
}

void NoteFormed(Startups& startups, const World& world, std::optional<Time> not_before, Time now) {
  Opening& open = *startups.open;
  open.members = static_cast<std::uint32_t>(world.members.size());
  Startup startup = open.known;
  startup.term = world.term;
  startup.number = ++startups.begun;
  startup.generation = world.generation;
  if (open.members == 1) {
    startup.stopped_last.clear();
  }
  if (not_before && *not_before > open.since) {
    const Time paused = std::min(*not_before, now);
    startup.backoff = Rounded(paused - open.since);
    open.since = paused;
  }
  startup.form = Rounded(now - open.since);
  open.since = now;
  startups.past.push_back(std::move(startup));
  startups.began.push_back(open.began);
  if (startups.past.size() > kMostStartups) {
    startups.past.erase(startups.past.begin());
    startups.began.erase(startups.began.begin());
  }
}

void NoteTimings(Startups& startups, Member& member, const StartTimings& timings, bool seen) {
  startups.steps |= timings.stepped.has_value();
  if (!startups.open || startups.open->members == 0) {
    return;  // A world that was found running.
  }
  Opening& open = *startups.open;
  Reach(open.started, member, kStarted, timings.started);
  Reach(open.restored, member, kRestored, timings.restored);
  Reach(open.stepped, member, kStepped, timings.stepped);
  if (seen && timings.stepped) {
    open.stepped.nodes = open.members;
  }
  FillIn(open, startups.past.back());
}

std::optional<StartupLine> StartupToTell(Startups& startups, bool steps) {
  if (IsTold(startups)) {
    return std::nullopt;
  }
  const Startup& startup = startups.past.back();
  if (startup.first_step) {
    startups.open->told = true;
    StartupLine line = LineOf(startup, "started in ", "recovered in ", "");
    line.lost = TotalOf(startup);
    return line;
  }
  const bool unknown = startup.start && startup.stop && !steps && !startups.steps;
  if (!unknown || std::exchange(startups.open->told_start, true)) {
    return std::nullopt;
  }
  return LineOf(startup, "", "workers run again after ", "; no step is known yet");
}

std::optional<StartupLine> EndStartup(Startups& startups, Time now) {
  std::optional<StartupLine> line;
  if (!IsTold(startups) && !startups.open->told_start) {
    const Startup& startup = startups.past.back();
    line = LineOf(startup, "workers ran after ", "workers ran again after ", "; no step was known");
    line->quiet = true;
    if (startups.steps) {
      line->lost = Rounded(now - startups.open->began) + startup.detect.value_or(Duration{0});
    }
  }
  startups.open.reset();
  return line;
}

std::vector<Startup> StartupsAt(const Startups& startups, Time now) {
  std::vector<Startup> past = startups.past;
  for (std::size_t i = 0; i < past.size(); ++i) {
    past[i].age = Rounded(now - startups.began[i]);
  }
  return past;
}

Duration TotalOf(const Startup& startup) {
  Duration total{0};
  for (const auto& part : {startup.detect, startup.stop, startup.backoff, startup.form,
                           startup.start, startup.state, startup.first_step}) {
    total += part.value_or(Duration{0});
  }
  return total;
}

std::string Describe(const Startup& startup) {
  std::string parts;
  const auto add = [&](const char* name, const std::optional<Duration>& part,
                       const NodeId& node = {}) {
    if (part) {
      parts += (parts.empty() ? "" : ", ") + std::string(name) + " " +
               std::to_string(part->count()) + (node.empty() ? "" : " (" + node + ")");
    }
  };
  add("detect", startup.detect);
  add("stop", startup.stop, startup.stopped_last);
  add("backoff", startup.backoff);
  add("form", startup.form);
  add("start", startup.start, startup.started_last);
  add("load state", startup.state, startup.restored_last);
  add("first step", startup.first_step, startup.stepped_last);
  return std::to_string(TotalOf(startup).count()) + " ms (" + parts + ")";
}

}  // namespace ddprun

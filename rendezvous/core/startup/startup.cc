#include "rendezvous/core/startup/startup.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

using std::chrono_literals::operator""s;

constexpr auto kWaitForSteps = 10s;  // Of a run in which nobody has told one.
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

std::optional<StartupLine> LineOf(Startups& startups, const std::string& why) {
  const Startup& startup = startups.past.back();
  startups.open->told = true;
  const bool first = !startup.stop;
  return StartupLine{first, (first ? "started in " : "recovered in ") + Describe(startup) + why,
                     startup};
}

bool IsTold(const Startups& startups) {
  return !startups.open || startups.open->members == 0 || startups.open->told;
}

}  // namespace

std::optional<StartupLine> BeginStartup(Startups& startups, std::string cause,
                                        const std::string& word, Time now) {
  std::optional<StartupLine> line = EndStartup(startups);
  startups.open = Opening{};
  startups.open->cause = Cut(std::move(cause));
  startups.open->cause_word = word;
  startups.open->began = startups.open->since = now;
  return line;
}

void NoteDetected(Startups& startups, std::optional<Duration> detect, Time now) {
  if (startups.open && startups.open->began == now && !startups.open->detect) {
    startups.open->detect = detect;
  }
}

void NoteStopped(Startups& startups, std::string cause, const std::string& word, const NodeId& last,
                 Time now) {
  Opening& open = *startups.open;
  open.cause = Cut(std::move(cause));
  open.cause_word = word;
  open.stop = Rounded(now - open.since);
  open.stopped_last = last;
  open.since = now;
}

void NoteFormed(Startups& startups, const World& world, Time now) {
  Opening& open = *startups.open;
  open.members = static_cast<std::uint32_t>(world.members.size());
  Startup startup;
  startup.term = world.term;
  startup.number = ++startups.begun;
  startup.generation = world.generation;
  startup.cause = open.cause;
  startup.cause_word = open.cause_word;
  startup.detect = open.detect;
  startup.stop = open.stop;
  startup.form = Rounded(now - open.since);
  startup.stopped_last = open.members > 1 ? open.stopped_last : NodeId();
  open.since = now;
  startups.past.push_back(std::move(startup));
  startups.began.push_back(open.began);
  if (startups.past.size() > kMostStartups) {
    startups.past.erase(startups.past.begin());
    startups.began.erase(startups.began.begin());
  }
}

void NotePace(Startups& startups, Member& member, const Pace& pace) {
  if (!startups.open || startups.open->members == 0) {
    return;  // A world that was found running.
  }
  Opening& open = *startups.open;
  Reach(open.started, member, kStarted, pace.started);
  Reach(open.restored, member, kRestored, pace.restored);
  Reach(open.stepped, member, kStepped, pace.stepped);
  FillIn(open, startups.past.back());
}

std::optional<StartupLine> StartupToTell(Startups& startups, bool steps, Time now) {
  if (IsTold(startups)) {
    return std::nullopt;
  }
  const Startup& startup = startups.past.back();
  if (startup.first_step) {
    return LineOf(startups, "");
  }
  const bool silent = startup.start && !steps && now >= startups.open->since + kWaitForSteps;
  return silent ? LineOf(startups, "; no step was told") : std::nullopt;
}

std::optional<StartupLine> EndStartup(Startups& startups) {
  std::optional<StartupLine> line =
      IsTold(startups) ? std::nullopt : LineOf(startups, "; no step was told");
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
  for (const auto& part : {startup.detect, startup.stop, startup.form, startup.start, startup.state,
                           startup.first_step}) {
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
  add("form", startup.form);
  add("start", startup.start, startup.started_last);
  add("state", startup.state, startup.restored_last);
  add("first step", startup.first_step, startup.stepped_last);
  return std::to_string(TotalOf(startup).count()) + " ms: " + parts;
}

}  // namespace ddprun

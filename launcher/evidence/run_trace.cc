#include "launcher/evidence/run_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "proto/trace_file.h"

namespace ddprun {
namespace {

using TraceJson = TraceFile::Json;

constexpr std::uint64_t kProcess = 1'000'000'000;  // Above any rank: those of the trainer's traces.
constexpr TraceRow kStarts{kProcess, 1};
constexpr TraceRow kWorlds{kProcess, 2};
constexpr TraceRow kHappened{kProcess, 3};
constexpr Duration kLongestPart{std::int64_t{366} * 24 * 3'600'000};
constexpr double kMicroseconds = 1'000;  // In a millisecond.

struct TraceStart {
  std::int64_t begin = 0;  // Milliseconds since 1970, as are all below.
  std::uint64_t generation = 0;
  std::string cause;
  std::string text;
  bool first = false;
  std::array<std::pair<const char*, std::optional<Duration>>, 6> parts;
};

// Nodes tell the next server what they have kept, so it may be made up.
Duration Believable(Duration part) {
  return std::clamp(part, Duration{0}, kLongestPart);
}

template <class From>
auto TracePartsOf(const From& from) {
  decltype(TraceStart::parts) parts{{{"detect", from.detect},
                                     {"stop", from.stop},
                                     {"form", from.form},
                                     {"start", from.start},
                                     {"state", from.state},
                                     {"first_step", from.first_step}}};
  for (auto& [name, part] : parts) {
    part = part ? std::optional(Believable(*part)) : part;
  }
  return parts;
}

struct TraceWorld {
  std::uint64_t generation = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string how;  // It ended; empty: it has not.
};

// An event with its time, which never goes back.
struct TraceMoment {
  std::int64_t when = 0;
  const RunEvent* event = nullptr;
};

std::vector<TraceMoment> MomentsOf(const RunStory& story) {
  std::vector<TraceMoment> all;
  std::int64_t last = 0;
  for (const RunEvent& event : story.events) {
    last = std::max(last, std::min(event.when.ms, story.unix_ms));
    all.push_back({last, &event});
  }
  return all;
}

bool IsKind(const RunEvent& event, std::string_view kind) {
  return event.kind == kind;
}

// The server's own word of when it began is exact; of earlier servers' there is only when they said
// that it was over.
std::vector<TraceStart> TraceStartsOf(const RunStory& story,
                                      const std::vector<TraceMoment>& events) {
  std::map<std::uint64_t, TraceStart> by_generation;
  for (const auto& [when, event] : events) {
    if (IsKind(*event, kEventStarted) || IsKind(*event, kEventRecovered)) {
      by_generation[event->generation.value] = {when - Believable(event->lost).count(),
                                                event->generation.value,
                                                event->cause,
                                                event->text,
                                                IsKind(*event, kEventStarted),
                                                TracePartsOf(*event)};
    }
  }
  for (const Startup& startup : story.run.startups) {
    TraceStart& start = by_generation[startup.generation.value];
    start.begin = story.unix_ms - startup.age.count();
    start.generation = startup.generation.value;
    start.cause = startup.cause_word;
    start.text = startup.cause;
    start.first = !startup.stop;
    start.parts = TracePartsOf(startup);
  }
  std::vector<TraceStart> starts;
  for (auto& [generation, start] : by_generation) {
    starts.push_back(std::move(start));
  }
  std::ranges::stable_sort(starts, {}, &TraceStart::begin);
  return starts;
}

std::vector<TraceWorld> TraceWorldsOf(const RunStory& story,
                                      const std::vector<TraceMoment>& events) {
  std::vector<TraceWorld> worlds;
  bool open = false;
  const auto close = [&](std::int64_t when, const std::string& how) {
    if (std::exchange(open, false)) {
      worlds.back().end = when;
      worlds.back().how = how;
    }
  };
  for (const auto& [when, event] : events) {
    if (IsKind(*event, kEventFormed)) {
      close(when, "");
      worlds.push_back({event->generation.value, when});
      open = true;
    } else if (IsKind(*event, kEventRestarting) || IsKind(*event, kEventStopped) ||
               IsKind(*event, kEventEnded)) {
      close(when, event->text);
    }
  }
  if (open) {
    worlds.back().end = std::max(worlds.back().begin, story.unix_ms);
  }
  return worlds;
}

class TraceWriter {
 public:
  TraceWriter(const RunStory& story, std::int64_t origin) : origin_(origin) {
    trace_.NameProcess(kProcess, "run " + story.run.run_id);
    trace_.NameThread(kStarts, "starts and recoveries");
    trace_.NameThread(kWorlds, "worlds");
    trace_.NameThread(kHappened, "what happened");
  }

  void AddStart(const TraceStart& start) {
    Duration whole{0};
    for (const auto& [name, part] : start.parts) {
      whole += part.value_or(Duration{0});
    }
    std::int64_t at = std::max(start.begin, starts_until_);
    starts_until_ = at + whole.count();
    Add(kStarts,
        (start.first ? "start of generation " : "recovery: generation ") +
            std::to_string(start.generation),
        start.first ? "start" : "recovery", at, whole.count(),
        {{"cause", start.cause}, {"text", start.text}});
    for (const auto& [name, part] : start.parts) {
      if (part) {
        Add(kStarts, name, "part", at, part->count(), TraceJson::object());
        at += part->count();
      }
    }
  }

  void Add(const TraceWorld& world) {
    const std::int64_t begin = std::max(world.begin, worlds_until_);
    worlds_until_ = std::max(world.end, begin);
    Add(kWorlds, "generation " + std::to_string(world.generation), "world", begin,
        worlds_until_ - begin, {{"ended", world.how}});
  }

  void Add(const TraceMoment& happened) {
    const RunEvent& event = *happened.event;
    TraceJson args{{"text", event.text}};
    if (!event.node.empty()) {
      args["node"] = event.node;
    }
    if (event.generation.value != 0) {
      args["generation"] = event.generation.value;
    }
    trace_.Instant(kHappened, event.kind, At(happened.when), std::move(args));
  }

  void Add(const TimedPoint& timed) {
    Count("step", timed.unix_ms, static_cast<double>(timed.point.step));
    Count("loss", timed.unix_ms, timed.point.loss);
    Count("samples/s", timed.unix_ms, timed.point.samples_per_s);
  }

  std::string Text(const RunStory& story) && {
    return std::move(trace_).Text({{"run_id", story.run.run_id},
                                   {"began_unix_time", static_cast<double>(origin_) / 1000.0},
                                   {"version", DDPRUN_VERSION}});
  }

 private:
  double At(std::int64_t when) const {
    return static_cast<double>(std::max<std::int64_t>(0, when - origin_)) * kMicroseconds;
  }
  void Add(TraceRow row, const std::string& name, const char* category, std::int64_t begin,
           std::int64_t took, TraceJson args) {
    trace_.Slice(row, name, category, At(begin), static_cast<double>(took) * kMicroseconds,
                 std::move(args));
  }
  void Count(const char* name, std::int64_t when, std::optional<double> value) {
    if (value && std::isfinite(*value)) {
      trace_.Counter(kProcess, name, At(when), *value);
    }
  }

  const std::int64_t origin_;
  TraceFile trace_;
  std::int64_t starts_until_ = 0;
  std::int64_t worlds_until_ = 0;
};

bool IsTraceInstant(const RunEvent& event) {
  static const std::set<std::string_view> kKinds{kEventLost,     kEventRefused, kEventFenced,
                                                 kEventJoins,    kEventAsked,   kEventServer,
                                                 kEventStopping, kEventEnded};
  return kKinds.contains(event.kind);
}

}  // namespace

std::string RunTrace(const RunStory& story) {
  const std::vector<TraceMoment> events = MomentsOf(story);
  const std::vector<TraceStart> starts = TraceStartsOf(story, events);
  const std::vector<TraceWorld> worlds = TraceWorldsOf(story, events);
  std::int64_t origin = story.unix_ms;
  const auto first = [&origin](const auto& list, auto of) {
    for (const auto& entry : list) {
      origin = std::min(origin, of(entry));
    }
  };
  first(events, [](const TraceMoment& happened) { return happened.when; });
  first(starts, [](const TraceStart& start) { return start.begin; });
  first(story.points, [](const TimedPoint& point) { return point.unix_ms; });

  TraceWriter writer(story, origin);
  for (const TraceStart& start : starts) {
    writer.AddStart(start);
  }
  for (const TraceWorld& world : worlds) {
    writer.Add(world);
  }
  for (const TraceMoment& happened : events) {
    if (IsTraceInstant(*happened.event)) {
      writer.Add(happened);
    }
  }
  for (const TimedPoint& point : story.points) {
    writer.Add(point);
  }
  return std::move(writer).Text(story);
}

}  // namespace ddprun

#include "launcher/evidence/run_bundle.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "agent/watch/evidence_bundle.h"
#include "common/files.h"
#include "launcher/evidence/event_file.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kBundleMode = 0600;
constexpr std::size_t kMostWaiting = 64;

bool IsOne(const RunEvent& event, std::initializer_list<const char*> kinds) {
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const char* kind) { return event.kind == kind; });
}

}  // namespace

RunBundle::RunBundle(Loop& loop, fs::path place, std::string node)
    : place_(std::move(place)),
      node_(std::move(node)),
      writer_(loop,
              {.place = (place_ / kBundlePrefix).native() + "*",
               .consequence = "the server's evidence of a hang or a failure is not kept there",
               .room = kMostWaiting}) {}

void RunBundle::Begin(Look look, Term term) {
  look_ = std::move(look);
  term_ = term;
}

void RunBundle::Note(const RunId& run_id, const RunEvent& event) {
  run_id_ = run_id_.empty() ? run_id : run_id_;
  if (run_id != run_id_ || event.term != term_) {
    return;  // Events of an earlier server that nodes have kept are known: that server wrote them.
  }
  events_.push_back(event);
  while (events_.size() > kMostEvents || events_.front().when.ms + kBeforeMs < event.when.ms) {
    events_.pop_front();
  }
  const bool hung = event.kind == kEventHung;
  if (hung || (event.kind == kEventStopping && event.cause == "worker")) {
    open_ = event.generation;
    verdict_ = hung ? event.text + "\n" : "";
    TakeState(event);
  } else if (open_.value != 0 && IsOne(event, {kEventRestarting, kEventEnded, kEventStopped})) {
    verdict_ += event.text + "\n";
  } else {
    return;
  }
  if (!verdict_.empty()) {
    Put("verdict.txt", [text = verdict_] { return text; });
  }
  if (IsOne(event, {kEventRestarting, kEventEnded, kEventStopped})) {
    open_ = {};
  }
}

void RunBundle::Put(const char* name, std::function<std::string()> text) {
  writer_.Write([bundle = BundleOf(place_, open_), name, text = std::move(text)]() -> Result<void> {
    RETURN_IF_ERROR(MakeBundle(bundle));
    return WriteWhole(bundle / name, text(), kBundleMode);
  });
}

void RunBundle::TakeState(const RunEvent& event) {
  Put("events.jsonl", [run = run_id_, events = std::vector(events_.begin(), events_.end())] {
    std::string lines;
    for (const RunEvent& one : events) {
      lines += EventLineOf(run, one);
    }
    return lines;
  });
  std::optional<RunStatus> run = look_ ? look_(run_id_) : std::nullopt;
  if (run) {
    Put(kStateFile,
        [overview = RunOverview{
             .run = *std::move(run), .unix_ms = event.when.ms, .term = term_, .node = node_}] {
          return JsonText(StateInJson(overview)) + "\n";
        });
  }
}

}  // namespace ddprun

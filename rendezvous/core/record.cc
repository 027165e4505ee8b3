#include "rendezvous/core/record.h"

#include <algorithm>

#include "rendezvous/core/bytes.h"

namespace ddprun {
namespace {

constexpr std::size_t kWordsToRemember = 512;

RunRecord RecordOf(const Records& records, const RunFacts& facts) {
  RunRecord record{facts.run_id,        facts.shape,  records.reserved,
                   facts.restarts_used, std::nullopt, facts.outcome};
  if (!facts.outcome) {
    record.world = facts.world;  // Nobody runs it again after the end.
  }
  return record;
}

}  // namespace

EndedRun ToRemember(const RunId& run_id, Generation newest, const Finish& outcome) {
  EndedRun run{run_id, newest, outcome};
  run.outcome.text.resize(std::min(run.outcome.text.size(), kWordsToRemember));
  if (run.outcome.root) {
    DropTexts(*run.outcome.root);
  }
  return run;
}

void Remember(std::vector<EndedRun>& ended, const EndedRun& run, std::size_t most) {
  std::erase_if(ended, [&](const EndedRun& other) { return other.run_id == run.run_id; });
  ended.push_back(run);
  if (ended.size() > most) {
    ended.erase(ended.begin());
  }
}

void Merge(std::vector<EndedRun>& ended, const std::vector<EndedRun>& others, std::size_t most) {
  for (const EndedRun& run : others) {
    const EndedRun* const known = FindEnded(ended, run.run_id);
    if (known == nullptr || known->newest < run.newest) {
      Remember(ended, run, most);
    }
  }
}

const EndedRun* FindEnded(const std::vector<EndedRun>& ended, const RunId& run_id) {
  const auto found = std::ranges::find(ended, run_id, &EndedRun::run_id);
  return found == ended.end() ? nullptr : &*found;
}

bool IsOfEnded(const EndedRun& run, const NodeReport& report) {
  const Generation hosted = report.placement ? report.placement->generation : Generation{};
  return report.term != Term{} && std::max(hosted, report.floor) <= run.newest;
}

RunRecord RecordOf(const EndedRun& run) {
  RunRecord record;
  record.run_id = run.run_id;
  record.reserved = run.newest;
  record.outcome = run.outcome;
  return record;
}

RecordMark MarkOf(const Records& records, const RunFacts& facts) {
  return {facts.shape.has_value(), records.reserved, facts.restarts_used,
          facts.world ? std::optional(facts.world->id) : std::nullopt, facts.outcome.has_value()};
}

std::optional<Persist> RecordIfChanged(Records& records, const RunFacts& facts,
                                       const RecordMark& before) {
  if (facts.newest.value + kReservedBlock / 2 > records.reserved.value) {
    records.reserved = {facts.newest.value + kReservedBlock};
  }
  if (MarkOf(records, facts) == before || !facts.shape) {
    return std::nullopt;
  }
  ++records.asked;
  if (facts.outcome && !before.outcome) {
    records.of_outcome = records.asked;
  }
  return Persist{records.asked, RecordOf(records, facts)};
}

bool OnPersisted(Records& records, std::uint64_t number) {
  const bool told = OutcomeIsKept(records);
  records.kept = std::max(records.kept, std::min(number, records.asked));
  return !told && OutcomeIsKept(records);
}

}  // namespace ddprun

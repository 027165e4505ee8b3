#include "rendezvous/core/record.h"

#include <algorithm>

namespace ddprun {
namespace {

RunRecord RecordOf(const Records& records, const RunFacts& facts) {
  RunRecord record{facts.run_id,        facts.shape,  records.reserved,
                   facts.restarts_used, std::nullopt, facts.outcome};
  if (!facts.outcome) {
    record.world = facts.world;  // Nobody runs it again after the end.
  }
  return record;
}

}  // namespace

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

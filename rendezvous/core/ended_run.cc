#include "rendezvous/core/ended_run.h"

#include <algorithm>
#include <tuple>

#include "rendezvous/core/bytes.h"

namespace ddprun {
namespace {

constexpr std::size_t kWordsToRemember = 512;

}  // namespace

EndedRun ToRemember(const RunId& run_id, Generation newest, const Finish& outcome, Term term) {
  EndedRun run{run_id, newest, outcome, term};
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
    if (known == nullptr || std::tie(known->term, known->newest) < std::tie(run.term, run.newest)) {
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
  const Term server = report.placement ? report.placement->term : report.term;
  return report.term != Term{} &&
         (server < run.term || std::max(hosted, report.floor) <= run.newest);
}

}  // namespace ddprun

#include "rendezvous/messages/history.h"

#include <algorithm>
#include <utility>

namespace ddprun {
std::size_t BytesOf(const RunEvent& event) {
  return sizeof event + event.text.size() + event.kind.size() + event.cause.size() +
         event.node.size();
}

Duration AgeOf(const RunEvent& event, const KeptSince& kept, Time now) {
  const Duration before(std::max<std::int64_t>(0, kept.wall.ms - event.when.ms));
  const auto age = event.told ? now - *event.told : now - kept.steady + before;
  return std::chrono::floor<Duration>(std::max(age, Time::duration{0}));
}

Duration History::KnownFor(const KeptSince& kept, Time now) const {
  return oldest_ ? AgeOf(*oldest_, kept, now) : Duration{0};
}

void History::Count(const RunEvent& event) {
  if (!oldest_ || event.mark() < oldest_->mark()) {
    oldest_ = RunEvent{
        .term = event.term, .number = event.number, .when = event.when, .told = event.told};
  }
  const bool ended = event.kind == kEventRestarting || event.kind == kEventStopped;
  if (!ended && event.kind != kEventRecovered) {
    return;
  }
  // Peers may have made them up.
  const bool ours = std::ranges::find(kCauses, event.cause) != kCauses.end();
  const std::string cause = ours ? event.cause : "other";
  auto total = std::ranges::find(totals_, cause, &CauseTotal::cause);
  if (total == totals_.end()) {
    total = totals_.insert(total, {cause});
  }
  total->ended += ended ? 1 : 0;
  total->lost += ended ? Duration{0} : event.lost;
}

void History::Shorten() {
  while (events_.size() > kMostEvents || (bytes_ > kMostBytes && events_.size() > 1)) {
    bytes_ -= BytesOf(events_.front());
    gone_ = std::max(gone_, events_.front().mark());
    events_.pop_front();
  }
}

const RunEvent& History::Append(RunEvent event) {
  event.number = newest().term == event.term ? newest().number + 1 : 1;
  bytes_ += BytesOf(event);
  Count(event);
  events_.push_back(std::move(event));
  Shorten();
  return events_.back();
}

std::vector<RunEvent> History::Merge(std::vector<RunEvent> events, Term before) {
  std::vector<RunEvent> added;
  for (RunEvent& event : events) {
    const auto place =
        std::lower_bound(events_.begin(), events_.end(), event.mark(),
                         [](const RunEvent& a, const EventMark& b) { return a.mark() < b; });
    if (event.term >= before || event.mark() <= gone_ ||
        (place != events_.end() && place->mark() == event.mark())) {
      continue;
    }
    bytes_ += BytesOf(event);
    Count(event);
    added.push_back(event);
    events_.insert(place, std::move(event));
  }
  Shorten();
  return added;
}

std::vector<RunEvent> History::After(EventMark mark, std::size_t most, std::size_t most_bytes,
                                     Term before) const {
  std::vector<RunEvent> found;
  std::size_t bytes = 0;
  for (auto event =
           std::upper_bound(events_.begin(), events_.end(), mark,
                            [](const EventMark&a, const RunEvent&b) { return a < b.mark(); });
       event != events_.end() && event->term < before && found.size() < most; ++event) {
    bytes += BytesOf(*event);
    if (bytes > most_bytes && !found.empty()) {
      break;
    }
    found.push_back(*event);
  }
  return found;
}

}  // namespace ddprun

#include "rendezvous/messages/lateness.h"

#include <algorithm>

#include "rendezvous/messages/lease.h"

namespace ddprun {

void Observe(WindowedMax& longest, Duration seen, Time now, Duration remembered) {
  if (now >= longest.turned + remembered) {
    const bool adjoins = now < longest.turned + 2 * remembered;
    longest.before = adjoins ? longest.recent : Duration{0};
    longest.recent = Duration{0};
    longest.turned = now;
  }
  longest.recent = std::max(longest.recent, seen);
}

WindowedMax Unproven(Duration long_lease, Time now) {
  return {.before = long_lease, .turned = now - (kLatenessRemembered - kProbation)};
}

Duration Value(const WindowedMax& longest) {
  return std::max(longest.recent, longest.before);
}

Duration LeaseThatFits(Duration took, int times, Duration long_lease) {
  return std::min(times * std::clamp<Duration>(took, Duration{0}, long_lease), long_lease);
}

void ObservePublished(PublishedLease& published, Duration lease, Time now) {
  if (lease > published.newest && published.newest > Duration{0}) {
    const bool lengthened_before = now < published.until;
    published.shorter =
        lengthened_before ? std::min(published.shorter, published.newest) : published.newest;
    published.until = now + lease;
  }
  published.newest = lease;
}

Duration LeaseKnown(const PublishedLease& published, Duration lease, Time now) {
  return now < published.until ? std::min(lease, published.shorter) : lease;
}

}  // namespace ddprun

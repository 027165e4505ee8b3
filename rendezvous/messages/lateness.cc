#include "rendezvous/messages/lateness.h"

#include <algorithm>

#include "rendezvous/messages/lease.h"

namespace ddprun {

void Note(Longest& longest, Duration seen, Time now, Duration remembered) {
  if (now >= longest.turned + remembered) {
    const bool adjoins = now < longest.turned + 2 * remembered;
    longest.before = adjoins ? longest.recent : Duration{0};
    longest.recent = Duration{0};
    longest.turned = now;
  }
  longest.recent = std::max(longest.recent, seen);
}

Longest Unproven(Time now) {
  return {.before = kLongLease, .turned = now - (kLatenessRemembered - kProbation)};
}

Duration Value(const Longest& longest) {
  return std::max(longest.recent, longest.before);
}

Duration LeaseThatFits(Duration took, int times) {
  return std::min(times * std::clamp<Duration>(took, Duration{0}, kLongLease), kLongLease);
}

void NoteTold(ToldLease& told, Duration lease, Time now) {
  if (lease > told.newest && told.newest > Duration{0}) {
    const bool lengthened_before = now < told.until;
    told.shorter = lengthened_before ? std::min(told.shorter, told.newest) : told.newest;
    told.until = now + lease;
  }
  told.newest = lease;
}

Duration LeaseKnown(const ToldLease& told, Duration lease, Time now) {
  return now < told.until ? std::min(lease, told.shorter) : lease;
}

}  // namespace ddprun

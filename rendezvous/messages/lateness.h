// How long a lease must be where machines, networks or claims do not keep up: what was seen to take
// longest in the last minutes must fit into one several times.
//
// Pure. A lease is lengthened at once, and shortened once nothing like it was seen for five to ten
// minutes, or by a new term that has not seen it. Never beyond a long lease. Leases that claims
// have named count for less long (kLongLeasesRemembered).
//
//   | who sees it       | what                                                  | must fit |
//   |-------------------|-------------------------------------------------------|----------|
//   | coordinator       | from an answer to that member's next report           | 4 times  |
//   | coordinator       | this server stood still                               | 4 times  |
//   | a candidate, the  | its own process stood still                           | 4 times  |
//   |   holder          | a look at the claim, or a move of it, failed ones too | 9 times  |
//
// A node that was lost for its silence and speaks again tells, by how late it is, how long it must
// be waited for: it is lost once.
#pragma once

#include "common/time.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {

// The maximum of what was observed lately.
struct WindowedMax {
  Duration recent{0};
  Duration before{0};
  Time turned;
};

// It counts for `remembered`, and twice as long at most.
void Observe(WindowedMax& longest, Duration seen, Time now, Duration remembered);

// Of machines that have not been seen at work yet: as if a long lease had been needed, for
// kProbation. When workers start all at once is when machines are latest, and what a false loss
// costs then is what a long lease would save.
WindowedMax Unproven(Duration long_lease, Time now);

Duration Value(const WindowedMax& longest);

// A lease into which that fits so often; a long one at most.
Duration LeaseThatFits(Duration took, int times, Duration long_lease);

// The same of a difference of two moments.
template <class Span>
void ObserveLate(WindowedMax& lateness, Span took, int times, Duration long_lease, Time now) {
  Observe(lateness, LeaseThatFits(std::chrono::ceil<Duration>(took), times, long_lease), now,
          kLatenessRemembered);
}

// Leases that nodes have received. A node that does not know a longer lease yet gives its call up
// as if the shorter one counted, so no call is parked for longer until each has been answered anew.
struct PublishedLease {
  Duration newest{0};
  Duration shorter{0};
  Time until;  // Some node may know the shorter one alone.
};

void ObservePublished(PublishedLease& published, Duration lease, Time now);

// By which calls are parked while `lease` counts.
Duration LeaseKnown(const PublishedLease& published, Duration lease, Time now);

}  // namespace ddprun

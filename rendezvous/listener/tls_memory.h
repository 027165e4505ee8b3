// gRPC makes its TLS connections by itself and has no setting for what each costs.
#pragma once

namespace ddprun {

// From the first call on, each TLS connection of this process gives its two buffers of 16 KiB back
// while nothing is said, and as a server makes no session tickets: a node comes back by a whole
// handshake, which alone proves the token. Ten thousand nodes wait most of the time. Where a
// certificate is to prove the token, no more than one is taken: OpenSSL checks each link of a
// foreign chain, which cost sixty handshakes, before its owner is checked.
void ReduceTlsMemory();

}  // namespace ddprun

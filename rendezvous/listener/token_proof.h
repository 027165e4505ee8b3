// How a holder of a token proves it without showing it: by a keyed hash (HMAC-SHA256) that the
// other side, which has the token too, makes again and compares in constant time.
//
//   certificate   a server's own: it signed itself, and its name is the hash of its public key. A
//                 replay cannot end the handshake; the maker of another one cannot name it
//   page          what a browser shows, and a page proves that it knows before it is shown it
//
// Never shows the token, remembers no peer: every server draws another key.
#pragma once

#include <string>
#include <string_view>

#include "common/ids.h"
#include "common/result.h"
#include "rendezvous/listener/tls.h"

namespace ddprun {

// A fresh key pair with a certificate that proves the token; no authority.
Result<Tls> DrawCertificate(const std::string& token);

// Whether the certificate (PEM) proves it. The TLS handshake proves that its sender has the key.
bool ProvesToken(std::string_view certificate, const std::string& token);

// The keys that a browser shows instead of the token: one to look at a run, another to operate it
// too. Neither tells the token or the other one.
struct PageKeys {
  std::string look, operate;
};
PageKeys PageKeysOf(const std::string& token, const RunId& run);

// Of a key, in answer to a nonce. `place`: where it was asked for, so that no server can answer
// with what it asked of another one.
std::string PageProof(const std::string& key, std::string_view place, std::string_view nonce);

}  // namespace ddprun

// The proofs that a node shows to a rendezvous and wants to see, so that no other process speaks
// for either: a token in every call, TLS under every connection.
//
//   certificate and key   a server shows them; a caller shows them where the server asks
//   authority             signs what the others show. A server with one turns a caller away that
//                         shows nothing that it signed (mutual TLS); a caller with one speaks TLS
//                         and wants the certificate to name the host that it called
//
// Files are read once, at start. A server with a token and no certificate draws one that proves the
// token (token_proof). The workers' store stays in the clear.
#pragma once

#include <string>

#include "common/result.h"

namespace ddprun {

// Files in PEM form; empty: not given.
struct TlsFiles {
  std::string certificate;  // --tls-cert: one's own first, then what signed it.
  std::string key;          // --tls-key
  std::string authority;    // --tls-ca

  bool any() const { return !(certificate + key + authority).empty(); }
};

// Their contents.
struct Tls {
  std::string certificate;
  std::string key;
  std::string authority;

  bool serves() const { return !certificate.empty(); }
  bool calls() const { return !authority.empty(); }
};

struct Access {
  std::string token;  // Empty: none is shown.
  Tls tls;
};

// A certificate without its key, or the key of another one; files that cannot be read, are no PEM,
// or (the key) are open to others: kInvalid.
Result<Tls> ReadTls(const TlsFiles& files);

}  // namespace ddprun

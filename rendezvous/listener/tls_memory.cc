#include "rendezvous/listener/tls_memory.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>

namespace ddprun {
namespace {

// More than twice what a certificate that proves a token has.
constexpr long kMaxProof = 1024;

// A server that asks for a certificate and believes no chain. (gRPC has a callback of its own only
// where it passes over what OpenSSL thinks of one.)
bool WantsProofAlone(const SSL* ssl) {
  return SSL_get_verify_callback(ssl) != nullptr &&
         (SSL_get_verify_mode(ssl) & SSL_VERIFY_FAIL_IF_NO_PEER_CERT) != 0;
}

// OpenSSL calls it with each connection that is being made.
void OnConnection(void* connection, void*, CRYPTO_EX_DATA*, int, long, void*) {
  SSL* const ssl = static_cast<SSL*>(connection);
  SSL_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
  SSL_set_num_tickets(ssl, 0);
  if (WantsProofAlone(ssl)) {
    SSL_set_max_cert_list(ssl, kMaxProof);
  }
}

}  // namespace

void ReduceTlsMemory() {
  static const int index =
      CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL, 0, nullptr, OnConnection, nullptr, nullptr);
  static_cast<void>(index);
}

}  // namespace ddprun

#include "rendezvous/door/lean_tls.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>

namespace ddprun {
namespace {

// OpenSSL calls it with each connection that is being made.
void OnConnection(void* connection, void*, CRYPTO_EX_DATA*, int, long, void*) {
  SSL* const ssl = static_cast<SSL*>(connection);
  SSL_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
  SSL_set_num_tickets(ssl, 0);
}

}  // namespace

void MakeTlsLean() {
  static const int index =
      CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL, 0, nullptr, OnConnection, nullptr, nullptr);
  static_cast<void>(index);
}

}  // namespace ddprun

// OpenSSL's objects with owners, and its last error in words. For rendezvous/ alone.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace ddprun {

template <auto free>
struct FreeOf {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using Bio = std::unique_ptr<BIO, FreeOf<BIO_free>>;
using Certificate = std::unique_ptr<X509, FreeOf<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, FreeOf<EVP_PKEY_free>>;

// "nothing" where it has not said why. None is left behind, for later ones to be taken for.
inline std::string LastOpenSslError() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "nothing" : reason;
}

}  // namespace ddprun

// For tests: certificates of a day, made in memory.
#pragma once

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <string>

#include "common/check.h"
#include "rendezvous/listener/openssl.h"

namespace ddprun {

struct Pem {
  std::string certificate;
  std::string key;
};

inline Bio Readable(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// The next certificate of a chain; none after the last one.
inline Certificate ReadCertificate(const Bio& text) {
  return Certificate(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
}

inline Key ReadKey(const std::string& text) {
  return Key(PEM_read_bio_PrivateKey(Readable(text).get(), nullptr, nullptr, nullptr));
}

class TestAuthority {
 public:
  explicit TestAuthority(const char* name)
      : key_(NewKey()), certificate_(Make(key_.get(), name, "CA:TRUE", "")) {}

  std::string certificate() const { return Text(certificate_.get()); }
  std::string key() const { return Text(key_.get()); }

  // `names`: as in "IP:127.0.0.1,DNS:localhost".
  Pem Issue(const std::string& names) const {
    const Key key = NewKey();
    const Certificate certificate = Make(key.get(), "node", "CA:FALSE", names);
    return {Text(certificate.get()), Text(key.get())};
  }

 private:
  static Key NewKey() {
    Key key(EVP_EC_gen("P-256"));
    CHECK(key != nullptr);
    return key;
  }

  // Signed by this authority, or by itself while there is none yet.
  Certificate Make(EVP_PKEY* key, const char* name, const char* constraints,
                   const std::string& names) const {
    Certificate made(X509_new());
    X509_set_version(made.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), 86400);
    X509_set_pubkey(made.get(), key);
    X509_NAME* const subject = X509_get_subject_name(made.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    const bool own = key == key_.get();
    X509_set_issuer_name(made.get(), own ? subject : X509_get_subject_name(certificate_.get()));
    AddExtension(made.get(), NID_basic_constraints, constraints);
    if (!names.empty()) {
      AddExtension(made.get(), NID_subject_alt_name, names.c_str());
    }
    CHECK(X509_sign(made.get(), key_.get(), EVP_sha256()) > 0);
    return made;
  }

  static void AddExtension(X509* certificate, int kind, const char* value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
    CHECK(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
  }

  static std::string Text(X509* certificate) {
    const Bio out(BIO_new(BIO_s_mem()));
    CHECK(PEM_write_bio_X509(out.get(), certificate) == 1);
    return TextOf(out);
  }

  static std::string Text(EVP_PKEY* key) {
    const Bio out(BIO_new(BIO_s_mem()));
    CHECK(PEM_write_bio_PrivateKey(out.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
    return TextOf(out);
  }

  static std::string TextOf(const Bio& out) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(out.get(), &data);
    return {data, static_cast<std::size_t>(size)};
  }

  mutable int serial_ = 0;
  Key key_;
  Certificate certificate_;
};

}  // namespace ddprun

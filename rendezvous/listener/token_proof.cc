#include "rendezvous/listener/token_proof.h"

#include <openssl/hmac.h>
#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <climits>

#include "common/ids.h"
#include "rendezvous/listener/control_token.h"
#include "rendezvous/listener/openssl.h"

namespace ddprun {
namespace {

// The hashed text begins differently for each purpose, so no answer serves for another one.
constexpr std::string_view kCertificate = "ddprun certificate 1\n";
constexpr std::string_view kLook = "ddprun page, to look 1\n";
constexpr std::string_view kOperate = "ddprun page, to operate 1\n";
constexpr std::string_view kPageProof = "ddprun page, proof 1\n";  // As page.html has it.
constexpr std::size_t kPageKeyDigits = 32;                         // 128 bits.
// Clocks of nodes differ, and no node looks: the name is the proof.
constexpr long kValidSeconds = 100L * 365 * 86'400;

std::string Digest(const std::string& token, const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned size = 0;
  HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), bytes.data(), &size);
  return Hex({bytes.data(), size});
}

// SubjectPublicKeyInfo, DER. Empty: there is none.
std::string PublicKey(const X509* certificate) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &bytes);
  std::string key(reinterpret_cast<const char*>(bytes),
                  static_cast<std::size_t>(std::max(size, 0)));
  OPENSSL_free(bytes);
  return key;
}

std::string NameFor(const X509* certificate, const std::string& token) {
  return Digest(token, std::string(kCertificate) + PublicKey(certificate));
}

std::string NameOf(const X509* certificate) {
  std::array<char, 128> name{};  // More than a common name may have; a longer one is cut.
  const int size = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                             name.data(), static_cast<int>(name.size()));
  return {name.data(), static_cast<std::size_t>(std::max(size, 0))};
}

bool SignAs(X509* certificate, EVP_PKEY* key, const std::string& token) {
  if (X509_set_version(certificate, X509_VERSION_3) != 1 ||
      ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) != 1 ||
      X509_gmtime_adj(X509_getm_notBefore(certificate), 0) == nullptr ||
      X509_gmtime_adj(X509_getm_notAfter(certificate), kValidSeconds) == nullptr ||
      X509_set_pubkey(certificate, key) != 1) {
    return false;
  }
  const std::string name = NameFor(certificate, token);
  X509_NAME* const subject = X509_get_subject_name(certificate);
  return X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(name.data()),
                                    static_cast<int>(name.size()), -1, 0) == 1 &&
         X509_set_issuer_name(certificate, subject) == 1 &&
         X509_sign(certificate, key, EVP_sha256()) > 0;
}

std::string TextOf(BIO* out) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(out, &data);
  return {data, static_cast<std::size_t>(size)};
}

}  // namespace

Result<Tls> DrawCertificate(const std::string& token) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate(X509_new());
  const Bio certificate_text(BIO_new(BIO_s_mem()));
  const Bio key_text(BIO_new(BIO_s_mem()));
  if (!key || !certificate || !certificate_text || !key_text ||
      !SignAs(certificate.get(), key.get(), token) ||
      PEM_write_bio_X509(certificate_text.get(), certificate.get()) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) !=
          1) {
    return Error{
        ErrorKind::kSystem,
        "cannot draw a key pair for this server's certificate: OpenSSL says " + LastOpenSslError()};
  }
  return Tls{TextOf(certificate_text.get()), TextOf(key_text.get()), ""};
}

bool ProvesToken(std::string_view certificate, const std::string& token) {
  if (token.empty() || certificate.size() > INT_MAX) {
    return false;
  }
  const Bio text(BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())));
  const Certificate parsed(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return parsed && SameToken(NameOf(parsed.get()), NameFor(parsed.get(), token));
}

PageKeys PageKeysOf(const std::string& token, const RunId& run) {
  return {Digest(token, std::string(kLook) + run).substr(0, kPageKeyDigits),
          Digest(token, std::string(kOperate) + run).substr(0, kPageKeyDigits)};
}

std::string PageProof(const std::string& key, std::string_view place, std::string_view nonce) {
  return Digest(key, std::string(kPageProof) + std::string(place) + "\n" + std::string(nonce));
}

}  // namespace ddprun

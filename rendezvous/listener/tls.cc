#include "rendezvous/listener/tls.h"

#include <openssl/pem.h>
#include <sys/stat.h>

#include "common/files.h"
#include "rendezvous/listener/openssl.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxPemFile = std::size_t{1} << 20;

// Never asks on a terminal for a passphrase.
int NoPassphrase(char*, int, int, void*) {
  return -1;
}

Result<std::string> ReadPem(const char* flag, const std::string& path) {
  Result<std::string> text = ReadFile(path, kMaxPemFile);
  if (!text) {
    return Error{ErrorKind::kInvalid, text.error().message + " (" + flag + ")"};
  }
  return text;
}

Result<void> CheckPrivate(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && (info.st_mode & 077) != 0) {
    return Invalid("--tls-key must be readable by its owner alone (chmod 600)", path);
  }
  return {};
}

Bio OpenPem(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

Result<Certificate> ParseCertificate(const char* flag, const std::string& path,
                                     const std::string& pem) {
  Certificate certificate(PEM_read_bio_X509(OpenPem(pem).get(), nullptr, NoPassphrase, nullptr));
  if (!certificate) {
    return Invalid(std::string(flag) + " must name a certificate in PEM form (OpenSSL says " +
                       LastOpenSslError() + ")",
                   path);
  }
  return certificate;
}

Result<void> CheckPair(const TlsFiles& files, const Tls& tls) {
  ASSIGN_OR_RETURN(const Certificate certificate,
                   ParseCertificate("--tls-cert", files.certificate, tls.certificate));
  const Key key(PEM_read_bio_PrivateKey(OpenPem(tls.key).get(), nullptr, NoPassphrase, nullptr));
  if (!key) {
    return Invalid("--tls-key must name a key in PEM form, without a passphrase (OpenSSL says " +
                       LastOpenSslError() + ")",
                   files.key);
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return Invalid("--tls-key is not the key of --tls-cert",
                   files.key + "', '" + files.certificate);
  }
  return {};
}

}  // namespace

Result<Tls> ReadTls(const TlsFiles& files) {
  Tls tls;
  if (files.certificate.empty() != files.key.empty()) {
    return Error{ErrorKind::kInvalid,
                 "--tls-cert and --tls-key go together: a certificate "
                 "needs its key"};
  }
  if (!files.certificate.empty()) {
    ASSIGN_OR_RETURN(tls.certificate, ReadPem("--tls-cert", files.certificate));
    ASSIGN_OR_RETURN(tls.key, ReadPem("--tls-key", files.key));
    RETURN_IF_ERROR(CheckPrivate(files.key));
    RETURN_IF_ERROR(CheckPair(files, tls));
  }
  if (!files.authority.empty()) {
    ASSIGN_OR_RETURN(tls.authority, ReadPem("--tls-ca", files.authority));
    RETURN_IF_ERROR(ParseCertificate("--tls-ca", files.authority, tls.authority));
  }
  return tls;
}

}  // namespace ddprun

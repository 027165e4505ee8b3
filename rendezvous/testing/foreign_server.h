// For tests: a foreign program that listens where a server is expected, and keeps what it receives.
#pragma once

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "common/check.h"
#include "common/endpoint.h"
#include "common/files.h"
#include "rendezvous/testing/certificates.h"
#include "rendezvous/testing/loopback.h"

namespace ddprun {

// A key whose public half is the certificate's, and whose other half is not: all that an attacker
// has who has only seen the certificate.
inline Key KeyOfWhoSawOnly(const Certificate& certificate) {
  EVP_PKEY* const theirs = X509_get0_pubkey(certificate.get());
  const Key own(EVP_EC_gen("P-256"));
  unsigned char* point = nullptr;
  const std::size_t size = EVP_PKEY_get1_encoded_public_key(theirs, &point);
  BIGNUM* secret = nullptr;
  EVP_PKEY_get_bn_param(own.get(), OSSL_PKEY_PARAM_PRIV_KEY, &secret);
  OSSL_PARAM_BLD* const build = OSSL_PARAM_BLD_new();
  OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0);
  OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, size);
  OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, secret);
  OSSL_PARAM* const params = OSSL_PARAM_BLD_to_param(build);
  EVP_PKEY_CTX* const context = EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr);
  EVP_PKEY* key = nullptr;
  CHECK(EVP_PKEY_fromdata_init(context) == 1 &&
        EVP_PKEY_fromdata(context, &key, EVP_PKEY_KEYPAIR, params) == 1);
  EVP_PKEY_CTX_free(context);
  OSSL_PARAM_free(params);
  OSSL_PARAM_BLD_free(build);
  BN_free(secret);
  OPENSSL_free(point);
  return Key(key);
}

using SslContext = std::unique_ptr<SSL_CTX, FreeOf<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, FreeOf<SSL_free>>;

// A server's answer over TLS to a client that accepts any certificate.
struct ToldOverTls {
  std::string name;         // Of the server's certificate.
  std::string first;        // The server's first bytes. Empty: it ended the connection.
  bool may_resume = false;  // Its next connection, without a whole handshake.
};

// `shown`: to the server; certificates after the first are a chain. Blocks.
inline ToldOverTls AskOverTls(const Endpoint& endpoint, const std::optional<Pem>& shown = {}) {
  const SslContext context(SSL_CTX_new(TLS_client_method()));
  if (shown) {
    const Bio chain = Readable(shown->certificate);
    CHECK(SSL_CTX_use_certificate(context.get(), ReadCertificate(chain).get()) == 1 &&
          SSL_CTX_use_PrivateKey(context.get(), ReadKey(shown->key).get()) == 1);
    while (Certificate link = ReadCertificate(chain)) {
      CHECK(SSL_CTX_add_extra_chain_cert(context.get(), link.release()) == 1);
    }
  }
  const Session session(SSL_new(context.get()));
  SSL* const tls = session.get();
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = AddressOf("127.0.0.1", endpoint.port);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(tls, kHttp2, sizeof kHttp2);
  SSL_set_fd(tls, socket.get());
  ToldOverTls told{std::string(128, '\0'), std::string(128, '\0')};
  int size = 0;
  int first = 0;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      SSL_connect(tls) == 1) {
    size = X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(tls)),
                                     NID_commonName, told.name.data(), 128);
    first = SSL_read(tls, told.first.data(), 128);  // His session ticket comes before it.
    told.may_resume = SSL_SESSION_is_resumable(SSL_get0_session(tls)) == 1;
  }
  told.name.resize(static_cast<std::size_t>(std::max(size, 0)));
  told.first.resize(static_cast<std::size_t>(std::max(first, 0)));
  return told;
}

class ForeignServer {
 public:
  // Without a certificate he speaks HTTP/2 in the clear; without its key he tries all the same.
  explicit ForeignServer(const std::optional<Pem>& shown = std::nullopt) {
    if (shown) {
      Show(*shown);
    }
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to who hangs up on him.
    thread_ = std::thread([this] { Serve(); });
  }
  ~ForeignServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);  // Ends the accept.
    ::shutdown(client_, SHUT_RDWR);
    thread_.join();
  }

  const Endpoint& endpoint() const { return endpoint_; }
  int clients() const { return clients_; }
  // All that callers said, without their TLS where he got so far.
  std::string heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  static constexpr std::string_view kSettings{"\0\0\0\4\0\0\0\0\0", 9};

  void Show(const Pem& shown) {
    tls_.reset(SSL_CTX_new(TLS_server_method()));
    const Certificate certificate = ReadCertificate(Readable(shown.certificate));
    const Key key = shown.key.empty() ? KeyOfWhoSawOnly(certificate) : ReadKey(shown.key);
    CHECK(SSL_CTX_use_certificate(tls_.get(), certificate.get()) == 1 &&
          SSL_CTX_use_PrivateKey(tls_.get(), key.get()) == 1);
    SSL_CTX_set_alpn_select_cb(
        tls_.get(),
        [](SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char*, unsigned,
           void*) {
          *chosen = reinterpret_cast<const unsigned char*>("h2");
          *size = 2;
          return SSL_TLSEXT_ERR_OK;
        },
        nullptr);
  }

  void Serve() {
    while (true) {
      const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) {
        return;
      }
      client_ = client.get();
      ++clients_;
      !tls_ ? HearInTheClear(client.get()) : HearOverTls(client.get());
      client_ = -1;
    }
  }

  void HearInTheClear(int client) {
    char bytes[4096];
    (void)!::send(client, kSettings.data(), kSettings.size(), MSG_NOSIGNAL);
    for (ssize_t count = 1; count > 0;) {
      count = ::recv(client, bytes, sizeof bytes, 0);
      Keep({bytes, static_cast<std::size_t>(std::max<ssize_t>(count, 0))});
    }
  }

  void HearOverTls(int client) {
    const Session tls(SSL_new(tls_.get()));
    SSL_set_fd(tls.get(), client);
    if (SSL_accept(tls.get()) == 1) {
      SSL_write(tls.get(), kSettings.data(), static_cast<int>(kSettings.size()));
      char bytes[4096];
      for (int count = 1; count > 0;) {
        count = SSL_read(tls.get(), bytes, sizeof bytes);
        Keep({bytes, static_cast<std::size_t>(std::max(count, 0))});
      }
    }
  }

  void Keep(std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    heard_ += bytes;
  }

  SslContext tls_;
  UniqueFd listener_ = ListenOnLoopback();
  Endpoint endpoint_{"127.0.0.1", PortOf(listener_)};
  std::atomic<int> client_{-1};
  std::atomic<int> clients_{0};
  mutable std::mutex mutex_;
  std::string heard_;
  std::thread thread_;
};

}  // namespace ddprun

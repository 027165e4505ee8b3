// One POST over TLS to a server that a certificate vouches for, from a thread that may wait.
//
// The name is looked up by the system, which has limits of its own; all else ends at the deadline.
// Of the answer kMostAnswer bytes are read at most. Follows no redirection, and speaks no plain
// HTTP: the token is a secret.
#pragma once

#include <cstddef>
#include <string>

#include "common/endpoint.h"
#include "common/result.h"
#include "common/time.h"

namespace ddprun {

struct HttpsPlace {
  Endpoint server;
  std::string path;  // With its query.
};
// "https://<host>[:<port>]/<path>"
Result<HttpsPlace> ParseHttpsUrl(const std::string& url);
// Its beginning: anybody may have set it.
std::string ShownUrl(const std::string& url);

struct HttpsPost {
  std::string url;
  std::string authority;   // A file of certificates; empty: those that the system trusts.
  std::string token_file;  // Read anew, since a token is replaced before it ends.
  std::string body;        // JSON.
};

inline constexpr std::size_t kMostAnswer = 4096;
inline constexpr std::size_t kMostToken = 65'536;

// An error says what was tried, where, and what the server answered.
Result<void> PostOverTls(const HttpsPost& post, Duration limit);

}  // namespace ddprun

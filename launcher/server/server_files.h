// How the verbs find a server and its token: by files that the agent which hosts the server
// leaves in its run directory, and by a link with which this user's verbs on this machine find it.
//
//   <run directory>/endpoint    HOST:PORT
//   <run directory>/token       mode 0600; its readers may drain and stop
//   <run directory>/tls         the absolute names of the three TLS files, a line each; only with
//                               TLS
//   <run directory>/operators   of a run of one node, instead of all these: the Unix socket at
//                               which it answers this user's verbs
//   <user directory>/server-<hash>-<run id>  ->  <run directory>
//
//   <run directory>/page        of such a run with --http-listen: what `ddprun status --url` prints
//
// The agent removes the link at its end. A link that a crash left behind leads to a server that
// does not answer, and is ignored.
#pragma once

#include <filesystem>
#include <string>

#include "common/endpoint.h"
#include "common/ids.h"
#include "common/result.h"
#include "launcher/command_line/config.h"
#include "proto/worker_env.h"
#include "rendezvous/client_asks.h"
#include "rendezvous/listener/tls.h"

namespace ddprun {

inline constexpr const char* kPageLinks = "page";  // In a run directory.

// The settings of the command line and the environment for a server. --insecure: a token that was
// found, not given, is ignored.
struct ServerQuery : AccessFlags {
  std::string endpoint;  // --endpoint or DDPRUN_ENDPOINT
  std::string pool;      // --pool or DDPRUN_POOL; `endpoint` is then the same.
  RunId run_id;          // --rdzv-id; empty: any, or all
};

struct ServerPlace : ServerAddress {
  std::filesystem::path directory =
      {};             // The directory whose files led to it; empty: no files did.
  RunId run_id = {};  // By the link that led to it; empty: no link did.
  std::string Where() const;
};

// --endpoint, else --run-dir, else the one server that this user's links lead to. If there are
// several, the one that was started in the current directory. kUnavailable: there is none.
// kInvalid: a given flag cannot be used.
Result<ServerPlace> FindServer(const ServerQuery& query);

// Whether `place` was that of a run of one node, whose agent has ended and removed its files. The
// server of a run of several nodes may be on another one by now.
bool HasEnded(const ServerPlace& place);

// Whether something answers there. Blocks for `timeout` at most.
bool Answers(const ServerPlace& place, Duration timeout);

// The token and TLS of a caller: the token of the file, else the given one, else none.
Result<Access> ChooseAccess(const AccessFlags& flags);

// The files of one served run. Removed with this object.
class ServerFiles {
 public:
  static Result<ServerFiles> Publish(const std::filesystem::path& run_directory,
                                     const Endpoint& endpoint, const RunId& run_id,
                                     const std::string& token, const TlsFiles& tls);
  // For a run of one node: only the link.
  static Result<ServerFiles> PublishControlSocket(const std::filesystem::path& run_directory,
                                                  const RunId& run_id);
  ServerFiles(ServerFiles&& other) noexcept;
  ServerFiles(const ServerFiles&) = delete;
  ~ServerFiles();  // Removes the link.

 private:
  static Result<ServerFiles> Link(const std::filesystem::path& run_directory,
                                  const std::string& where, const RunId& run_id);
  explicit ServerFiles(std::filesystem::path link) : link_(std::move(link)) {}
  std::filesystem::path link_;  // Empty: another object has it.
};

}  // namespace ddprun

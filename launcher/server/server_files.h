// How the verbs find a server and its token: what the agent that carries it leaves in its run
// directory, and the link by which this user's verbs on this machine find that directory.
//
//   <run directory>/endpoint    HOST:PORT
//   <run directory>/token       mode 0600; who can read it may drain and stop
//   <run directory>/tls         the absolute names of the three files of TLS, a line each; none
//                               without it
//   <run directory>/operators   of a run of one node in place of all these: the Unix socket at
//   which
//                               it hears this user's verbs
//   <user directory>/server-<hash>-<run id>  ->  <run directory>
//
//   <run directory>/page        of such a run with --http-listen: what `ddprun status --url` prints
//
// The link goes with the agent; one that was left behind by a crash leads to a server that does not
// answer, and is passed over.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/endpoint.h"
#include "common/ids.h"
#include "common/result.h"
#include "launcher/setting.h"
#include "proto/worker_env.h"
#include "rendezvous/door/tls.h"

namespace ddprun {

inline constexpr const char* kPageLinks = "page";  // In a run directory.

// What the command line and the environment say of a server.
struct ServerQuery {
  std::string endpoint;           // --endpoint or DDPRUN_ENDPOINT
  std::string run_dir;            // --run-dir or DDPRUN_RUN_DIR
  RunId run_id;                   // --rdzv-id; empty: any, or all
  std::string token_file;         // --token-file or DDPRUN_TOKEN_FILE
  std::string token;              // DDPRUN_TOKEN
  bool insecure = false;          // --insecure: a token that is only found does not count.
  TlsFiles tls;                   // --tls-cert, --tls-key, --tls-ca or DDPRUN_TLS_CERT, ...
  std::vector<Setting> settings;  // All that, for the origins of what cannot be used.
};

struct ServerPlace {
  std::filesystem::path door;  // The run directory of a run of one node; empty: `endpoint` counts.
  Endpoint endpoint;
  Access access;                         // An empty token: none was found.
  std::filesystem::path directory = {};  // Whose files have told of it; empty: none have.
  std::string Where() const;
};

// --endpoint, else --run-dir, else the one server that this user's links lead to; of several the
// one that was started in the current directory. kUnavailable:
// there is none; kInvalid: what was said cannot be used.
Result<ServerPlace> FindServer(const ServerQuery& query);

// What to show and to ask for: the token from the file, else the given one, else none.
Result<Access> ChooseAccess(const std::string& token_file, const std::string& token,
                            const TlsFiles& tls);

// The files of one served run, until it goes.
class ServerFiles {
 public:
  static Result<ServerFiles> Publish(const std::filesystem::path& run_directory,
                                     const Endpoint& endpoint, const RunId& run_id,
                                     const std::string& token, const TlsFiles& tls);
  // Of a run of one node: the link alone.
  static Result<ServerFiles> PublishDoor(const std::filesystem::path& run_directory,
                                         const RunId& run_id);
  ServerFiles(ServerFiles&& other) noexcept;
  ServerFiles(const ServerFiles&) = delete;
  ~ServerFiles();  // Removes the link.

 private:
  static Result<ServerFiles> Link(const std::filesystem::path& run_directory,
                                  const std::string& where, const RunId& run_id);
  explicit ServerFiles(std::filesystem::path link) : link_(std::move(link)) {}
  std::filesystem::path link_;
};

// A verb's exit code for an error: 2 for bad input, 69 for nobody there, else 1.
int ExitCodeOf(const Error& error);

}  // namespace ddprun

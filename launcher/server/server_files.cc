#include "launcher/server/server_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <sstream>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/log.h"
#include "launcher/command_line/config.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/problems.h"
#include "launcher/command_line/removed.h"
#include "launcher/node_slot.h"
#include "launcher/run_token.h"
#include "launcher/slurm/sealed_token.h"
#include "rendezvous/control_socket.h"
#include "rendezvous/listener/control_token.h"
#include "rendezvous/listener/hello.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxEndpointFile = 4096;
constexpr std::uint16_t kDefaultPort = 29400;
constexpr Duration kSeekTimeout{1'000};
constexpr const char* kLinkPrefix = "server-";
constexpr const char* kTlsFile = "tls";
constexpr std::size_t kMaxTlsNames = 4 * 4096;

std::string AbsoluteOrEmpty(const std::string& file) {
  return file.empty() ? "" : fs::absolute(file).native();
}

// A later term may begin while workers run, and they could have put anything there.
Result<void> WriteOwn(const fs::path& path, const std::string& text) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenOrdinary(path, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  return WriteAll(fd.get(), text, path);
}

Result<TlsFiles> ReadTlsNames(const fs::path& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadOrdinary(path, kMaxTlsNames));
  std::istringstream lines(text);
  TlsFiles files;
  std::getline(lines, files.certificate);
  std::getline(lines, files.key);
  std::getline(lines, files.authority);
  return files;
}

Result<ServerPlace> PlaceIn(const fs::path& run_directory) {
  std::error_code none;
  if (fs::is_socket(run_directory / kControlSocket, none)) {
    ServerPlace here;
    here.control_socket = here.directory = run_directory;
    return here;
  }
  Result<std::string> text = ReadOrdinary(run_directory / "endpoint", kMaxEndpointFile);
  if (!text) {
    return Error{ErrorKind::kInvalid,
                 text.error().message + ". Is it the run directory of a node that hosts a server?"};
  }
  text->erase(std::min(text->find('\n'), text->size()));
  ServerPlace place;
  place.directory = run_directory;
  ASSIGN_OR_RETURN(place.endpoint, ParseEndpoint(*text, 0));
  if (const Result<std::string> token = ReadOrdinaryTokenFile(run_directory / "token")) {
    place.access.token = *token;
  }
  if (fs::exists(run_directory / kTlsFile)) {
    ASSIGN_OR_RETURN(const TlsFiles files, ReadTlsNames(run_directory / kTlsFile));
    ASSIGN_OR_RETURN(place.access.tls, ReadTls(files));
  }
  return place;
}

struct Linked {
  ServerPlace place;
  std::string started_in;  // A directory; empty: not known.
  std::string command;
};

// "DIRECTORY\nCOMMAND" of the launch, to tell several runs of one user apart.
constexpr const char* kLaunchedFile = "launched";
constexpr std::size_t kMaxLaunchedFile = 16 * 1024;
constexpr std::size_t kMostShownOfCommand = 100;

std::string Launched() {
  std::error_code none;
  const Result<std::string> read = ReadFile("/proc/self/cmdline", kMaxLaunchedFile / 2);
  std::string command = read ? *read : "";
  std::ranges::replace(command, '\0', ' ');
  return fs::current_path(none).native() + "\n" + command;
}

// False also if the directory is gone because its agent was killed. Then the link is removed too:
// another user who knows the directory's name could create it again.
bool LeadsToOwnDirectory(const fs::path& link) {
  struct stat directory {};
  if (::stat(link.c_str(), &directory) != 0) {
    if (errno == ENOENT) {
      ::unlink(link.c_str());
    }
    return false;
  }
  return directory.st_uid == ::geteuid() || directory.st_uid == 0;
}

// The linked servers that answer.
std::vector<Linked> LinkedServers(const RunId& run_id) {
  std::vector<Linked> found;
  const Result<fs::path> directory = UserDirectory();
  for (const fs::path& path : directory ? EntriesOf(*directory) : std::vector<fs::path>()) {
    const std::string name = path.filename().native();
    const std::size_t dash = name.find('-', std::string(kLinkPrefix).size());
    if (!name.starts_with(kLinkPrefix) || dash == std::string::npos ||
        (!run_id.empty() && name.substr(dash + 1) != run_id)) {
      continue;
    }
    if (!LeadsToOwnDirectory(path)) {
      continue;
    }
    Result<ServerPlace> place = PlaceIn(path);
    if (place && Answers(*place, kSeekTimeout)) {
      place->run_id = name.substr(dash + 1);
      const Result<std::string> read = ReadOrdinary(path / kLaunchedFile, kMaxLaunchedFile);
      const std::string launched = read ? *read : "";
      const std::size_t line = std::min(launched.find('\n'), launched.size());
      found.push_back({*place, launched.substr(0, line),
                       launched.substr(std::min(line + 1, launched.size()), kMostShownOfCommand)});
    }
  }
  return found;
}

// The token and TLS that this user has for an endpoint on this machine. Loopback has many names, so
// there the port alone is compared.
Access AccessTo(const Endpoint& endpoint, bool insecure) {
  for (const Linked& linked : LinkedServers("")) {
    const Endpoint& known = linked.place.endpoint;
    if (!linked.place.control_socket.empty()) {
      continue;
    }
    const bool both_here = IsLoopback(known.host) && IsLoopback(endpoint.host);
    if (known == endpoint || (both_here && known.port == endpoint.port)) {
      return linked.place.access;
    }
  }
  return {insecure ? "" : TokenSharedAt(endpoint), {}};
}

// The given token and TLS win; those that the server's node has left fill the gaps.
Access With(const Access& given, Access known) {
  known.token = given.token.empty() ? known.token : given.token;
  known.tls = given.tls.calls() || given.tls.serves() ? given.tls : known.tls;
  return known;
}

// If no token was given or found: asks for one that MUNGE may have sealed for this user.
Result<void> UnsealToken(const ServerQuery& query, ServerPlace& place) {
  const Tls& tls = place.access.tls;
  if (!place.access.token.empty() || tls.calls() || tls.serves() || query.insecure) {
    return {};
  }
  ASSIGN_OR_RETURN(place.access.token, TokenSealedAt(place.endpoint, kSeekTimeout));
  return {};
}

Result<ServerPlace> FindLinked(const RunId& run_id) {
  if (const Result<fs::path> own = UserDirectory(); !own) {
    return Error{ErrorKind::kUnavailable,
                 own.error().message + ". Set --endpoint=HOST:PORT or --run-dir=DIR"};
  }
  const std::vector<Linked> found = LinkedServers(run_id);
  if (found.empty()) {
    return Error{ErrorKind::kUnavailable,
                 "no ddprun run" + (run_id.empty() ? "" : " '" + run_id + "'") +
                     " of yours on this machine. If it runs elsewhere, set --endpoint=HOST:PORT "
                     "[no-run-here]"};
  }
  if (found.size() > 1) {
    std::error_code none;
    const std::string here = fs::current_path(none).native();
    const auto is_here = [&](const Linked& linked) { return linked.started_in == here; };
    if (std::ranges::count_if(found, is_here) == 1) {
      return std::ranges::find_if(found, is_here)->place;
    }
    for (const Linked& linked : found) {  // An error is one line, so the list is printed here.
      const ServerPlace& place = linked.place;
      const std::string flag = place.control_socket.empty()
                                   ? "--endpoint=" + ToString(place.endpoint)
                                   : "--run-dir=" + place.directory.native();
      std::fprintf(stderr, "  %s  %s  in %s: %s\n", PrintableLine(place.run_id).c_str(),
                   PrintableLine(flag).c_str(), PrintableLine(linked.started_in).c_str(),
                   PrintableLine(linked.command).c_str());
    }
    return Error{ErrorKind::kInvalid, "several runs of yours on this machine" +
                                          (run_id.empty() ? "" : " are named '" + run_id + "'") +
                                          ". Select one with --rdzv-id=NAME, --run-dir=DIR or "
                                          "--endpoint=HOST:PORT"};
  }
  return found.front().place;
}

Error Of(const char* flag, const Error& error) {
  return {error.kind, std::string(flag) + ": " + error.message};
}

Result<ServerPlace> Find(const ServerQuery& query) {
  ServerPlace place;
  ASSIGN_OR_RETURN(const Access given, ChooseAccess(query));
  RETURN_IF_ERROR(RefuseList(query.endpoint));
  if (query.endpoint.starts_with("unix:")) {
    return Error{ErrorKind::kInvalid, "--endpoint takes only HOST:PORT. For the run at unix:DIR/" +
                                          std::string(kControlSocket) + " set --run-dir=DIR"};
  }
  if (!query.endpoint.empty()) {
    const Result<Endpoint> endpoint = ParseEndpoint(query.endpoint, kDefaultPort);
    if (!endpoint) {
      return Of("--endpoint", endpoint.error());
    }
    place.endpoint = *endpoint;
    if (given.token.empty() || !query.tls.any()) {
      place.access = AccessTo(place.endpoint, query.insecure);
    }
    place.access = With(given, place.access);
    RETURN_IF_ERROR(UnsealToken(query, place));
    return place;
  }
  Result<ServerPlace> found =
      query.run_dir.empty() ? FindLinked(query.run_id) : PlaceIn(query.run_dir);
  if (!found) {
    return query.run_dir.empty() ? found.error() : Of("--run-dir", found.error());
  }
  place = *std::move(found);
  place.access = With(given, place.access);
  return place;
}

}  // namespace

std::string ServerPlace::Where() const {
  return control_socket.empty() ? ToString(endpoint)
                                : "unix:" + (control_socket / kControlSocket).native();
}

Result<ServerPlace> FindServer(const ServerQuery& query) {
  Result<ServerPlace> found = Find(query);
  if (!found) {
    return Error{found.error().kind, WithOrigins(InOneLine(found.error().message), query.settings)};
  }
  return found;
}

Result<Access> ChooseAccess(const AccessFlags& flags) {
  if (flags.token_file.empty() && !flags.token.empty() && flags.token.size() < kLeastToken) {
    return Error{ErrorKind::kInvalid, "the token in DDPRUN_TOKEN must have at least 16 characters"};
  }
  Access access{flags.token, {}};
  if (!flags.token_file.empty()) {
    Result<std::string> read = ReadTokenFile(flags.token_file);
    if (!read) {
      return Of("--token-file", read.error());
    }
    access.token = *std::move(read);
  }
  ASSIGN_OR_RETURN(access.tls, ReadTls(flags.tls));
  return access;
}

bool HasEnded(const ServerPlace& place) {
  std::error_code none;
  return !place.control_socket.empty() &&
         !fs::is_socket(place.control_socket / kControlSocket, none);
}

bool Answers(const ServerPlace& place, Duration timeout) {
  return place.control_socket.empty()
             ? Hello(place.endpoint, timeout).has_value()
             : ConnectToControlSocket(place.control_socket, timeout).has_value();
}

Result<ServerFiles> ServerFiles::Publish(const fs::path& run_directory, const Endpoint& endpoint,
                                         const RunId& run_id, const std::string& token,
                                         const TlsFiles& tls) {
  const std::string text = ToString(endpoint);
  RETURN_IF_ERROR(WriteOwn(run_directory / "endpoint", text + "\n"));
  ::unlink((run_directory / "token").c_str());  // From an earlier term of this node.
  RETURN_IF_ERROR(WriteTokenFile(run_directory / "token", token));
  if (tls.any()) {
    RETURN_IF_ERROR(WriteOwn(run_directory / kTlsFile, AbsoluteOrEmpty(tls.certificate) + "\n" +
                                                           AbsoluteOrEmpty(tls.key) + "\n" +
                                                           AbsoluteOrEmpty(tls.authority) + "\n"));
  }
  return Link(run_directory, text, run_id);
}

Result<ServerFiles> ServerFiles::PublishControlSocket(const fs::path& run_directory,
                                                      const RunId& run_id) {
  return Link(run_directory, run_directory.native(), run_id);
}

// `where` makes the link's name unique: no two servers are at the same place at the same time.
Result<ServerFiles> ServerFiles::Link(const fs::path& run_directory, const std::string& where,
                                      const RunId& run_id) {
  ASSIGN_OR_RETURN(const fs::path directory, UserDirectory());
  RETURN_IF_ERROR(WriteOwn(run_directory / kLaunchedFile, Launched()));
  const fs::path link =
      directory / (kLinkPrefix + Hex(std::hash<std::string>{}(where)) + "-" + run_id);
  ::unlink(link.c_str());  // From an agent that could not remove it.
  if (::symlink(run_directory.c_str(), link.c_str()) != 0) {
    return SystemError("make the link", link.native(), errno);
  }
  return ServerFiles(link);
}

ServerFiles::ServerFiles(ServerFiles&& other) noexcept : link_(std::exchange(other.link_, {})) {}

ServerFiles::~ServerFiles() {
  if (!link_.empty()) {
    ::unlink(link_.c_str());
  }
}

}  // namespace ddprun

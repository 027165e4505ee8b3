#include "agent/workers/kept_preload.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>

#include "agent/workers/worker_spec.h"
#include "common/files.h"
#include "common/json.h"
#include "proto/preload_protocol.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostPlanBytes = 4 << 20;
constexpr int kMostWaiting = 8;  // Connections that it has not accepted yet.

UniqueFd NewSocket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

std::string ProgramOf(const std::filesystem::path& socket) {
  const std::string name = socket.filename().native();
  return name.substr(0, name.rfind('-'));
}

void EndOlder(const std::filesystem::path& own) {
  std::size_t others = 1;  // Programs, with this one.
  bool older = false;
  for (const std::filesystem::path& path : KeptSockets(own.parent_path())) {
    const bool same = ProgramOf(path) == ProgramOf(own);
    older |= path == own;
    if (path != own && (same ? older : others++ >= kMostKept) &&
        !AskKept(path, KeptRequest::kEnd) && older) {
      ::unlink(path.c_str());  // Its process was killed.
    }
  }
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PreloadPurpose, preload, file, directory, command, environment,
                                   streams)

Result<UniqueFd> FileOf(const PreloadPurpose& purpose) {
  nlohmann::json text = purpose;
  text["version"] = kPreloadVersion;
  return MemoryFile("ddprun-plan",
                    text.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

Result<PreloadPurpose> ReadPurpose(const UniqueFd& file) {
  if (::lseek(file.get(), 0, SEEK_SET) != 0) {
    return SystemError("read", "the plan of a preload process", errno);
  }
  ASSIGN_OR_RETURN(const std::string text, ReadToEnd(file.get(), "a plan", kMostPlanBytes));
  const nlohmann::json plan = ParseJson(text);
  try {
    if (plan.at("version") == kPreloadVersion) {
      return plan.get<PreloadPurpose>();
    }
  } catch (const nlohmann::json::exception&) {
  }
  return Error{ErrorKind::kInvalid, "it is not of this build"};
}

std::string FirstDifference(const std::map<std::string, std::string>& a,
                            const std::map<std::string, std::string>& b) {
  const auto [of_a, of_b] = std::ranges::mismatch(a, b);
  const bool first_of_b = of_b != b.end() && (of_a == a.end() || of_b->first < of_a->first);
  return first_of_b ? of_b->first : of_a != a.end() ? of_a->first : "";
}

std::string DifferenceOf(const PreloadPurpose& a, const PreloadPurpose& b) {
  const std::string variable = FirstDifference(a.environment, b.environment);
  return a.preload != b.preload       ? "--preload"
         : a.file != b.file           ? "interpreter"
         : a.directory != b.directory ? "directory"
         : a.command != b.command     ? "command"
         : !variable.empty()          ? "variable " + variable
                                      : "";
}

std::vector<std::filesystem::path> KeptSockets(const std::filesystem::path& directory,
                                               const std::string& prefix) {
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> found;
  std::error_code error;
  for (std::filesystem::path& path : EntriesOf(directory)) {
    if (path.filename().native().starts_with(prefix)) {
      found.emplace_back(std::filesystem::last_write_time(path, error), std::move(path));
    }
  }
  std::ranges::sort(found, std::greater{});
  std::vector<std::filesystem::path> paths;
  for (auto& [time, path] : found) {
    paths.push_back(std::move(path));
  }
  return paths;
}

Result<UniqueFd> ListenForLaunch(const std::filesystem::path& path) {
  ::unlink(path.c_str());  // Of a process whose number this one has.
  UniqueFd socket = NewSocket();
  if (!AtUnixPath(::bind, socket.get(), path) || ::listen(socket.get(), kMostWaiting) != 0) {
    return SystemError("listen at", path.native(), errno);
  }
  EndOlder(path);
  return socket;
}

Result<UniqueFd> AskKept(const std::filesystem::path& path, KeptRequest request,
                         std::span<const int> descriptors) {
  UniqueFd socket = NewSocket();
  if (!AtUnixPath(::connect, socket.get(), path)) {
    return SystemError("connect to", path.native(), errno);
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      peer.uid != ::getuid()) {
    return Error{ErrorKind::kRefused, "'" + path.native() + "' is another user's"};
  }
  const std::string_view bytes(reinterpret_cast<const char*>(&request), sizeof request);
  const bool sent = descriptors.empty()
                        ? ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                              static_cast<ssize_t>(bytes.size())
                        : SendWithDescriptors(socket.get(), bytes, descriptors, MSG_DONTWAIT);
  if (!sent) {
    return SystemError("ask", path.native(), errno);
  }
  return socket;
}

Result<KeptAnswer> AwaitKept(int connection, Duration limit) {
  pollfd there{connection, POLLIN, 0};
  if (::poll(&there, 1, static_cast<int>(limit.count())) != 1) {
    return Error{ErrorKind::kRefused, "it did not answer"};
  }
  KeptAnswer answer;
  Received message = ReceiveWithDescriptors(
      connection, {reinterpret_cast<char*>(&answer.reply), sizeof answer.reply}, 1, MSG_DONTWAIT);
  if (!message.descriptors.empty()) {
    answer.plan = std::move(message.descriptors.front());
  }
  if (message.size != sizeof answer.reply) {
    return Error{ErrorKind::kUnavailable, "it has ended"};
  }
  answer.reply.remark[sizeof answer.reply.remark - 1] = '\0';
  return answer;
}

}  // namespace ddprun

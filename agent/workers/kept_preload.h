// A preload process that is kept after its run (--keep-warm), from the side of ddprun: its socket
// and the text that says what it was made for. proto/kept_preload_process.h has the protocol.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/result.h"
#include "common/time.h"
#include "proto/kept_preload_process.h"

namespace ddprun {

// The sockets' names begin so.
inline constexpr std::string_view kKeptPrefix = "preload-";
inline constexpr std::size_t kMostKept = 2;  // Of one user on one machine.

// How an agent keeps its own.
struct KeepPlan {
  Duration idle{0};  // How long the process waits for the next run; 0: it ends with this one.
  // In a directory that only this user can enter. The sockets of this program begin so; "-" and the
  // agent's pid follow.
  std::filesystem::path socket;
};

// The preload process that an agent finds at its start, if its launch begins in a kept one.
struct GivenPreload {
  pid_t pid = 0;  // A child of the agent's.
  UniqueFd socket;
  UniqueFd plan;
};

// The program and the environment that a preload process was made for.
struct PreloadPurpose {
  std::string preload;
  std::string file;                                // The file that is executed.
  std::string directory;                           // The working directory of the program.
  std::vector<std::string> command;                // The words up to the program's own arguments.
  std::map<std::string, std::string> environment;  // Common to all workers.
  // Type and device of its streams, as stat(2) has them: equal in the same process alone.
  std::array<std::pair<std::uint32_t, std::uint64_t>, 3> streams{};
};
Result<UniqueFd> FileOf(const PreloadPurpose& purpose);
// kInvalid: it is none of this build.
Result<PreloadPurpose> ReadPurpose(const UniqueFd& file);
// A variable that only one of them has, or with another value; "": none.
std::string FirstDifference(const std::map<std::string, std::string>& a,
                            const std::map<std::string, std::string>& b);
// For people: the first thing that differs, but for streams. "": nothing.
std::string DifferenceOf(const PreloadPurpose& a, const PreloadPurpose& b);

// Those whose names begin so, the newest first.
std::vector<std::filesystem::path> KeptSockets(
    const std::filesystem::path& directory, const std::string& prefix = std::string(kKeptPrefix));

// A listening socket of this name. Ends older processes of the same program, and the oldest ones if
// there would be more than kMostKept.
Result<UniqueFd> ListenForLaunch(const std::filesystem::path& socket);

// Connects, checks that the other side is this user's, sends the request. Never waits.
Result<UniqueFd> AskKept(const std::filesystem::path& socket, KeptRequest request,
                         std::span<const int> descriptors = {});

struct KeptAnswer {
  KeptReply reply;
  UniqueFd plan;  // Of kState.
};
// kRefused: there was none within the limit.
Result<KeptAnswer> AwaitKept(int connection, Duration limit);

}  // namespace ddprun

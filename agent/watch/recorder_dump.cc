#include "agent/watch/recorder_dump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <initializer_list>
#include <optional>
#include <thread>

#include "common/files.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBeside = "fr_";  // _ddprun_watch.py's.
constexpr unsigned kDumpMode = 0600;
constexpr std::chrono::milliseconds kLookForDump{20};
constexpr std::chrono::milliseconds kOlderClock{50};  // Files' times are of one that ticks.
constexpr int kSameLooks = 8;  // In a row: torch opens the file and then writes it at once.

std::string OneOf(const std::map<std::string, std::string>& environment,
                  std::initializer_list<const char*> names, std::string otherwise) {
  for (const char* const name : names) {
    if (const auto found = environment.find(name); found != environment.end()) {
      return found->second;
    }
  }
  return otherwise;
}

struct Look {
  std::uintmax_t size = 0;
  fs::file_time_type changed;
  bool operator==(const Look&) const = default;
};

// None: there is no file that is new and has something in it.
std::optional<Look> LookAt(const fs::path& path, fs::file_time_type since) {
  std::error_code error;
  const bool plain = fs::is_regular_file(fs::symlink_status(path, error));
  const Look look{plain ? fs::file_size(path, error) : 0, fs::last_write_time(path, error)};
  return error || !plain || look.size == 0 || look.changed < since - kOlderClock
             ? std::nullopt
             : std::optional(look);
}

}  // namespace

RecorderNames RecorderNamesIn(const std::map<std::string, std::string>& environment,
                              const fs::path& notify_socket) {
  const std::string beside =
      notify_socket.empty() ? "" : (notify_socket.parent_path() / kBeside).native();
  return {
      OneOf(environment, {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE"}, beside),
      OneOf(environment, {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}, beside)};
}

bool AskForDump(const RecorderNames& names, std::uint32_t rank) {
  if (names.pipe.empty()) {
    return false;
  }
  const std::string path = names.pipe + std::to_string(rank) + ".pipe";
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  return fd && ::fstat(fd.get(), &info) == 0 && S_ISFIFO(info.st_mode) &&
         ::write(fd.get(), "1", 1) == 1;
}

Result<void> KeepDump(const RecorderNames& names, std::uint32_t rank, fs::file_time_type since,
                      std::chrono::milliseconds limit, const fs::path& into) {
  if (names.dump.empty()) {
    return Error{ErrorKind::kNotFound, "torch has named no file for its dump"};
  }
  const fs::path path = names.dump + std::to_string(rank);
  const auto end = std::chrono::steady_clock::now() + limit;
  std::optional<Look> last;
  int same = 0;
  while (same < kSameLooks) {
    const std::optional<Look> look = LookAt(path, since);
    same = look && look == last ? same + 1 : 0;
    last = look;
    if (std::chrono::steady_clock::now() >= end) {
      break;
    }
    std::this_thread::sleep_for(kLookForDump);
  }
  if (!last) {
    return Error{ErrorKind::kNotFound, "torch has written no dump to '" + path.native() + "'"};
  }
  if (limit > std::chrono::milliseconds(0) && same < kSameLooks) {
    return Error{ErrorKind::kUnavailable,
                 "the dump in '" + path.native() + "' was not finished in time"};
  }
  ASSIGN_OR_RETURN(const std::string bytes, ReadOrdinary(path, kMostDump));
  return WriteWhole(into, bytes, kDumpMode);
}

}  // namespace ddprun

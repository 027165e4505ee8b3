#include "launcher/verbs/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/watch/evidence_bundle.h"
#include "common/files.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/evidence/report_file.h"
#include "launcher/print_out.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr off_t kMostOfFile = 4 << 20;  // As of a worker whose run exists.
constexpr std::size_t kMostFiles = 20'000;
constexpr const char* kAttemptPrefix = "attempt_";
constexpr const char* kLines = ".lines.txt";

// "attempt_2.1": (2, 1); "3": (3, 0). A name that is none is none of ddprun's directories.
std::optional<std::pair<std::uint64_t, std::uint64_t>> NumbersOf(std::string_view name) {
  const std::size_t dot = std::min(name.find('.'), name.size());
  const auto first = ParseNumber<std::uint64_t>(name.substr(0, dot));
  const auto second = dot == name.size() ? std::optional<std::uint64_t>(0)
                                         : ParseNumber<std::uint64_t>(name.substr(dot + 1));
  return first && second ? std::optional(std::pair(*first, *second)) : std::nullopt;
}

// The directories `<prefix><number>` in that one, by number.
std::vector<fs::path> NumberedIn(const fs::path& directory, const std::string& prefix) {
  std::vector<std::pair<std::pair<std::uint64_t, std::uint64_t>, fs::path>> found;
  for (fs::path& path : EntriesOf(directory, kMostFiles)) {
    const std::string name = path.filename().native();
    std::error_code gone;
    const auto numbers = name.starts_with(prefix)
                             ? NumbersOf(std::string_view(name).substr(prefix.size()))
                             : std::nullopt;
    if (numbers && fs::is_directory(fs::symlink_status(path, gone))) {
      found.emplace_back(*numbers, std::move(path));
    }
  }
  std::ranges::sort(found);
  std::vector<fs::path> paths;
  for (auto& [numbers, path] : found) {
    paths.push_back(std::move(path));
  }
  return paths;
}

std::vector<fs::path> LogsIn(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const fs::path& attempt : NumberedIn(directory, kAttemptPrefix)) {
    for (const fs::path& worker : NumberedIn(attempt, "")) {
      for (const char* const name : {"stdout.log", "stderr.log"}) {
        if (fs::is_regular_file(worker / name, none) && files.size() < kMostFiles) {
          files.push_back(worker / name);
        }
      }
    }
  }
  if (!files.empty()) {
    return files;
  }
  const std::vector<fs::path> bundles = NumberedIn(directory, kBundlePrefix);
  for (fs::path& path : EntriesOf(bundles.empty() ? fs::path() : bundles.back(), kMostFiles)) {
    if (path.native().ends_with(kLines)) {
      files.push_back(std::move(path));
    }
  }
  std::ranges::sort(files);
  return files;
}

bool IsOfOneRun(const fs::path& directory) {
  std::error_code none;
  return !NumberedIn(directory, kAttemptPrefix).empty() ||
         !NumberedIn(directory, kBundlePrefix).empty() ||
         fs::exists(directory / "events.jsonl", none) || fs::exists(directory / kReportFile, none);
}

// The run directories in a --log-dir, the newest first.
std::vector<fs::path> RunDirectoriesIn(const fs::path& directory) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  for (fs::path& path : EntriesOf(directory, kMostFiles)) {
    std::error_code gone;
    if (fs::is_directory(fs::symlink_status(path, gone)) && IsOfOneRun(path)) {
      found.emplace_back(fs::last_write_time(path, gone), std::move(path));
    }
  }
  std::ranges::sort(found, std::greater());
  std::vector<fs::path> paths;
  for (auto& [written, path] : found) {
    paths.push_back(std::move(path));
  }
  return paths;
}

// `<run id>_<unique>` of each node (launcher/run_directory.h). Runs of one name each have a server,
// whose node keeps the events.
bool AreOfOneRun(const std::vector<fs::path>& directories) {
  std::set<std::string> runs;
  std::size_t servers = 0;
  for (const fs::path& directory : directories) {
    const std::string name = directory.filename().native();
    std::error_code none;
    runs.insert(name.substr(0, name.rfind('_')));
    servers += fs::exists(directory / "events.jsonl", none) ? 1 : 0;
  }
  return runs.size() == 1 && servers <= 1;
}

// "==> attempt_0/1/stderr.log", and its end.
Result<std::string> EndOf(const fs::path& directory, const fs::path& file,
                          std::optional<std::uint32_t> lines) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenOrdinary(file, O_RDONLY, 0));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    return SystemError("read", file.native(), errno);
  }
  const bool cut = info.st_size > kMostOfFile && ::lseek(fd.get(), -kMostOfFile, SEEK_END) > 0;
  ASSIGN_OR_RETURN(std::string text, ReadToEnd(fd.get(), file, 2 * kMostOfFile));
  text.erase(0, lines ? StartOfLastLines(text, *lines) : 0);
  text += text.empty() || text.ends_with('\n') ? "" : "\n";
  return "==> " + PrintableLine(file.lexically_relative(directory).native()) +
         (cut && !lines ? " (its last 4 MiB)" : "") + "\n" + Printable(text);
}

}  // namespace

bool HasLogFiles(const std::string& directory) {
  return !LogsIn(directory).empty() || !RunDirectoriesIn(directory).empty();
}

Result<std::vector<fs::path>> DirectoriesOfRun(const fs::path& directory) {
  constexpr std::size_t kMostNamed = 3;
  if (IsOfOneRun(directory)) {
    return std::vector{directory};
  }
  const std::vector<fs::path> runs = RunDirectoriesIn(directory);
  if (runs.empty() || AreOfOneRun(runs)) {
    return runs.empty() ? std::vector{directory} : runs;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(runs.size(), kMostNamed); ++i) {
    names.push_back(runs[i].native());
  }
  return Error{ErrorKind::kInvalid,
               "'" + directory.native() + "' has " + std::to_string(runs.size()) +
                   " run directories, the newest first: " + Joined(names, ", ") +
                   (runs.size() > kMostNamed ? ", ..." : "") + ". Name one of them"};
}

int PrintLogFiles(const std::string& given, std::optional<std::uint32_t> lines) {
  std::error_code error;
  if (!fs::is_directory(given, error)) {
    return PrintError("logs",
                      {ErrorKind::kInvalid, "'" + given + "' is not the directory of a run"});
  }
  const Result<std::vector<fs::path>> directories = DirectoriesOfRun(given);
  if (!directories) {
    return PrintError("logs", directories.error());
  }
  std::vector<fs::path> files;
  for (const fs::path& directory : *directories) {
    std::ranges::move(LogsIn(directory), std::back_inserter(files));
  }
  const fs::path below = directories->size() == 1 ? directories->front() : fs::path(given);
  if (files.empty()) {
    return PrintError("logs", {ErrorKind::kNotFound,
                               "no workers' output in '" + below.native() +
                                   "' (is it <log dir>/<run>_<...>?). To keep output in files, "
                                   "start the run with --log-dir=DIR"});
  }
  int code = 0;
  for (const fs::path& file : files) {
    const Result<std::string> text = EndOf(below, file, lines);
    const int printed = PrintAnswer("logs", text);
    code = std::max(code, printed);
    if (text && printed != 0) {
      break;  // Nothing reads it.
    }
  }
  return code;
}

}  // namespace ddprun

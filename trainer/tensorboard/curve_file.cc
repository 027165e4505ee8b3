#include "trainer/tensorboard/curve_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/endpoint.h"
#include "common/log.h"
#include "common/slug.h"
#include "common/text.h"
#include "common/wall_clock.h"

namespace ddprun {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::size_t kDigits = 10;  // Of the second, until 2286: names sort as numbers do.
constexpr std::uint64_t kLastSecond = 9'999'999'998;
constexpr int kMostEntries = 65'536;  // Looked at in a directory.
constexpr int kMostNames = 100;       // Of one second, by others with this host's name and our pid.

// 0: no event file's name.
std::uint64_t SecondIn(std::string_view name) {
  if (!name.starts_with(kPrefix) || name.size() <= kPrefix.size() + kDigits ||
      name[kPrefix.size() + kDigits] != '.') {
    return 0;
  }
  return ParseNumber<std::uint64_t>(name.substr(kPrefix.size(), kDigits)).value_or(0);
}

// The newest that is there, by its name; 0: none.
std::uint64_t NewestIn(const std::filesystem::path& directory, std::error_code& error) {
  std::uint64_t newest = 0;
  std::filesystem::directory_iterator entry(directory, error);
  for (int seen = 0;
       !error && entry != std::filesystem::directory_iterator() && seen < kMostEntries; ++seen) {
    newest = std::max(newest, SecondIn(entry->path().filename().native()));
    entry.increment(error);
  }
  return newest;
}

Error CannotUse(const std::filesystem::path& directory, int error_number) {
  Error error =
      SystemError("write event files (--tensorboard) in", directory.native(), error_number);
  const bool passes = error_number == ENOSPC || error_number == EDQUOT || error_number == EIO ||
                      error_number == ESTALE || error_number == EMFILE || error_number == ENFILE ||
                      error_number == ENOMEM;
  error.kind = passes ? ErrorKind::kUnavailable : ErrorKind::kInvalid;
  error.message += " [tensorboard-files]";
  return error;
}

}  // namespace

Result<UniqueFd> MakeCurveFile(const std::filesystem::path& directory, std::uint64_t second) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return CannotUse(directory, error.value());
  }
  const std::uint64_t newest = NewestIn(directory, error);
  if (error) {
    return CannotUse(directory, error.value());
  }
  second = std::min(std::max(second, newest + 1), kLastSecond);
  const std::string name = std::string(kPrefix) + std::to_string(second) + "." + HostName() + "." +
                           std::to_string(::getpid()) + ".";
  for (int n = 0;; ++n) {
    UniqueFd fd(::open((directory / (name + std::to_string(n))).c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
    if (fd) {
      return fd;
    }
    if (errno != EEXIST || n == kMostNames) {
      return CannotUse(directory, errno);
    }
  }
}

Result<LineFile> OpenCurves(const std::filesystem::path& directory, std::uint64_t step) {
  if (directory.empty()) {
    return LineFile();
  }
  const double now = UnixSeconds();
  Result<LineFile> opened = LineFile::Open(
      directory, {.what = "TensorBoard events",
                  .flag = "--tensorboard",
                  .open = [now](const std::filesystem::path& path) {
                    return MakeCurveFile(path, static_cast<std::uint64_t>(std::max(now, 0.0)));
                  }});
  if (!opened && opened.error().kind == ErrorKind::kUnavailable) {
    Log(LogLevel::kWarning, Continue(opened.error().message, "; training continues without them"));
    return LineFile();
  }
  if (opened) {
    opened->Append(TfRecord(FileVersionEvent(now)) + TfRecord(SessionStartEvent(now, step + 1)));
  }
  return opened;
}

std::string CurveRecord(std::uint64_t step, std::span<const Scalar> scalars) {
  return TfRecord(ScalarsEvent(UnixSeconds(), step, scalars));
}

}  // namespace ddprun

#include "trainer/disk/line_file.h"

#include <fcntl.h>

#include <cerrno>
#include <mutex>
#include <optional>
#include <utility>

#include "common/files.h"
#include "common/log.h"
#include "trainer/disk/disk_wait.h"

namespace ddprun {

struct LineFile::File {
  std::string path;
  UniqueFd fd;  // The thread's.

  std::mutex mutex;  // Of all below.
  std::optional<Error> failed;
  std::string waiting;
  std::uint64_t waiting_lines = 0;
  std::uint64_t unwritten = 0;  // Lines, with those that are being written.
  std::size_t unwritten_bytes = 0;

  void Open(const LineFileOptions& options) {
    Result<UniqueFd> opened = options.open ? options.open(path) : OpenToAppend(options);
    if (opened) {
      fd = *std::move(opened);
      return;
    }
    const std::lock_guard lock(mutex);
    failed = opened.error();
  }

  Result<UniqueFd> OpenToAppend(const LineFileOptions& options) const {
    if (options.make_directory) {
      RETURN_IF_ERROR(MakeDirectories(std::filesystem::path(path).parent_path(), 0755));
    }
    UniqueFd opened(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!opened) {
      return SystemError("write the " + options.what + " (" + options.flag + ")", path, errno);
    }
    return opened;
  }

  void Write() {
    std::string lines;
    std::uint64_t count = 0;
    {
      const std::lock_guard lock(mutex);
      if (failed) {
        return;
      }
      lines.swap(waiting);
      count = std::exchange(waiting_lines, 0);
    }
    const Result<void> written = WriteAll(fd.get(), lines, path);
    const std::lock_guard lock(mutex);
    if (!written) {
      failed = written.error();
      return;
    }
    unwritten -= count;
    unwritten_bytes -= lines.size();
  }
};

Result<LineFile> LineFile::Open(const std::filesystem::path& path, const LineFileOptions& options) {
  LineFile lines;
  lines.what_ = options.what;
  lines.file_ = std::make_shared<File>();
  lines.file_->path = path.string();
  lines.thread_ = std::make_unique<TaskQueue>();
  lines.thread_->Post([file = lines.file_, options] { file->Open(options); });
  if (!lines.thread_->Drain(kMostOpening)) {
    Log(LogLevel::kWarning,
        "the " + options.what + " file '" + path.string() +
            "' cannot be opened yet: its file system is not responding, or it "
            "is a FIFO without a reader. Training continues, and its lines wait");
    return lines;
  }
  const std::lock_guard lock(lines.file_->mutex);
  if (lines.file_->failed) {
    return *lines.file_->failed;
  }
  return lines;
}

void LineFile::Append(const std::string& line) {
  if (!file_) {
    return;
  }
  std::unique_lock lock(file_->mutex);
  if (file_->failed) {
    Log(LogLevel::kWarning, file_->failed->message + "; nothing more is written to it");
    lock.unlock();
    file_.reset();
    return;
  }
  if (file_->unwritten_bytes + line.size() <= kMostWaiting) {
    file_->waiting += line;
    file_->unwritten_bytes += line.size();
    ++file_->unwritten;
    if (++file_->waiting_lines == 1) {  // Else a call that will take it along waits already.
      thread_->Post([file = file_] { file->Write(); });
    }
    return;
  }
  lock.unlock();
  if (dropped_++ == 0) {
    Log(LogLevel::kWarning, "the " + what_ + " file '" + file_->path +
                                "' takes no more lines: its file system is not responding, or it "
                                "has no reader. Lines are dropped until that changes");
  }
}

void LineFile::Finish() {
  if (!file_) {
    return;
  }
  (void)thread_->Drain(kMostFlushing);
  const std::lock_guard lock(file_->mutex);
  if (file_->unwritten + dropped_ > 0) {
    Log(LogLevel::kWarning, std::to_string(file_->unwritten + dropped_) + " lines of " + what_ +
                                " could not be written to '" + file_->path + "'" +
                                (file_->failed ? ": " + file_->failed->message : " in time"));
  }
}

}  // namespace ddprun

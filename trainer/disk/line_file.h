// A file to which a training appends lines while it trains: its metrics, its samples.
//
// Written on a thread: a disk that hangs, or a FIFO without a reader, does not delay the caller.
// Lines wait for it up to a number of bytes; further lines are dropped, and that is reported. Lines
// of several writers never mix: each write is of whole ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "common/files.h"
#include "common/result.h"
#include "common/task_queue.h"

namespace ddprun {

struct LineFileOptions {
  // The file's content in messages: "metrics".
  std::string what;
  // The flag in messages: "--metrics".
  std::string flag;
  // The file's directory is made; false: a directory that is not there is an error.
  bool make_directory = false;
  // Opens the file, on the thread, so it may hang; none: the file is made where it is not there,
  // and appended to.
  std::function<Result<UniqueFd>(const std::filesystem::path&)> open;
};

class LineFile {
 public:
  static constexpr std::size_t kMostWaiting = std::size_t{64} << 20;

  // None: Append does nothing.
  LineFile() = default;
  // An error: it cannot be opened; not that it has not been yet.
  static Result<LineFile> Open(const std::filesystem::path& path, const LineFileOptions& options);

  // With its newline. Once a line could not be written, that is said and nothing is any more.
  void Append(const std::string& line);
  // Waits until all is written, but not for long; a message reports lines that still are not.
  void Finish();

 private:
  struct File;
  std::shared_ptr<File> file_;  // The thread's as well, which may outlive this. Null: none.
  std::unique_ptr<TaskQueue> thread_;
  std::string what_;
  std::uint64_t dropped_ = 0;
};

}  // namespace ddprun

// A program started with its stdout in a pipe (or on a terminal of its own), as a user would.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/exit_status.h"
#include "common/files.h"

namespace ddprun::testing {

class Launched {
 public:
  struct Options {
    bool terminal = false;       // stdin, stdout and stderr are a new pseudo terminal.
    bool ignore_hangup = false;  // As nohup does.
    bool own_group = false;      // As a shell's job: one that Ctrl-Z can stop.
  };

  Launched(const std::vector<std::string>& argv, const Options& options);
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t pid() const { return pid_; }
  // What was read so far.
  const std::string& output() const { return output_; }
  // Reads until the text has appeared, or everything has been read; false: not within the limit.
  bool ReadUntil(const std::string& text);
  void ReadToEnd();
  // Keys on the terminal.
  void Type(const std::string& keys);
  // nullopt: still running after the limit.
  std::optional<ExitStatus> Wait(std::chrono::milliseconds limit = std::chrono::seconds(10));
  // The program was stopped by a signal (Ctrl-Z).
  bool Stopped();

 private:
  bool ReadSome(std::chrono::milliseconds limit);

  pid_t pid_ = 0;
  UniqueFd out_;
  std::string output_;
  std::optional<ExitStatus> status_;
};

}  // namespace ddprun::testing

// The dump of torch's recorder of NCCL's collectives ("flight recorder"), asked for from outside: a
// byte into the pipe `<pipe><rank>.pipe` of a worker makes a thread of torch, which needs no
// interpreter, write `<dump><rank>` within a second or so (ProcessGroupNCCL.hpp, DumpPipe; torch
// 2.2 and later).
//
// Pipe and file are the worker's. They delay nothing here, and never take more than kMostDump. The
// file is a pickle: it is kept and never read. Blocks, bounded: for threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "common/result.h"

namespace ddprun {

// Of a dump of 2,000 entries with their stacks a few MB are usual.
inline constexpr std::size_t kMostDump = std::size_t{64} << 20;

struct RecorderNames {
  std::string pipe;
  std::string dump;
};

// As the workers' environment has them, or beside their notify sockets.
RecorderNames RecorderNamesIn(const std::map<std::string, std::string>& environment,
                              const std::filesystem::path& notify_socket);

// True: a thread of torch reads there, and was asked.
bool AskForDump(const RecorderNames& names, std::uint32_t rank);

// Once the file has not changed for a moment it is copied, mode 0600. `since`: an older one is
// none. kNotFound: there was none by the `limit`; kUnavailable: it still grew.
// Without a limit it is taken as it is.
Result<void> KeepDump(const RecorderNames& names, std::uint32_t rank,
                      std::filesystem::file_time_type since, std::chrono::milliseconds limit,
                      const std::filesystem::path& into);

}  // namespace ddprun

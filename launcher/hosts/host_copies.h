// The files of a launch that a host may lack, for --copy: ddprun itself and the program, where that
// is a file. A host has a file if the same bytes are under the same path there, or in the cache of
// copies of the user there: ~/.cache/ddprun/copies/HASH/NAME, by SHA-256. A file that it lacks
// comes on its standard input, and is kept in that cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/result.h"
#include "launcher/command_line/config.h"

namespace ddprun {

struct HostCopy {
  std::string path;  // Absolute.
  std::string hash;  // SHA-256 in hex.
  std::shared_ptr<const std::string> bytes;
};

// `ddprun`: where hosts look for it. kNotFound, kSystem: a file cannot be read.
Result<std::vector<HostCopy>> FindCopies(const LaunchConfig& config, const std::string& ddprun);

// "ddprun (25 MB)"
std::string Describe(const HostCopy& copy);

// For the shell of a host: looks for each file, asks for those that it lacks (control_stream.h),
// and becomes ddprun with kOrderOnStdin and the program's copy; empty: it is there under its own
// path, or it is not one of the files.
std::vector<std::string> CommandWithCopies(const std::vector<HostCopy>& copies);

}  // namespace ddprun

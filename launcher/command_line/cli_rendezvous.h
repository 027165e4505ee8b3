// What a command line says about where and how nodes meet, as values; for cli.cc alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/result.h"
#include "launcher/command_line/config.h"
#include "launcher/command_line/raw_flags.h"

namespace ddprun {

// Everything that is wrong with a command line, a line each.
struct Problems {
  std::string text;

  template <class T>
  void Check(const Result<T>& result) {
    if (!result) {
      Add(result.error().message);
    }
  }
  // The error does not say which flag it is about.
  template <class T>
  void Check(const std::string& flag, const Result<T>& result) {
    if (!result) {
      Add(flag + ": " + result.error().message);
    }
  }
  void Add(const std::string& problem) { text += (text.empty() ? "" : "\n") + problem; }
};

std::optional<std::uint32_t> NotNegative(const std::string& text);

// Endpoint, list, run id, access and run directory. The numbers of nodes are known.
void ResolveRendezvous(const RawFlags& raw, LaunchConfig& config, Problems& problems);

}  // namespace ddprun

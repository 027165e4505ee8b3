// The two sizes of help, and the version.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace ddprun {

std::string VersionText();
std::string ShortHelp();
std::string LongHelp(const CLI::App& app);

}  // namespace ddprun

// The two sizes of help, the exit codes, and the version. `name` is what ddprun was called: ddprun
// or torchrun.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

std::string VersionText();
std::string ShortHelp(const std::string& name);
std::string LongHelp(const std::string& name);
// The rows of LongHelp for the flag of this name, with or without its dashes.
std::optional<std::string> FlagHelp(std::string name);
std::string ExitCodesHelp();  // All of the table (exit_codes.h).

// `text` in lines of at most `width` characters, each after the first behind `indent` blanks.
std::string Wrapped(const std::string& text, std::size_t indent, std::size_t width);

}  // namespace ddprun

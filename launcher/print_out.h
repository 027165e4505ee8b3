// A verb's answer: its table, and its way to standard output, so that an answer that is lost is an
// error everywhere.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/result.h"

namespace ddprun {

// The exit code: 0, or 1 with the reason on stderr where not all of it could be written.
int PrintOut(const std::string& text);

// "ddprun VERB: error: ..." on stderr. The exit code: 2 for bad input, 69 if no server answers,
// else 1.
int PrintError(const std::string& verb, const Error& error);

// One of both.
int PrintAnswer(const std::string& verb, const Result<std::string>& text);

// Columns as wide as their widest entry, a line for each row, whatever stands in it.
std::string AlignedRows(std::vector<std::vector<std::string>> rows, const std::string& indent = "");
// Of a text of others in such a row: its line stays readable.
inline constexpr std::size_t kMostOfCell = 100;

}  // namespace ddprun

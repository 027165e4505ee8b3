// A file of examples/ with the words of one request in place of its own: the example
// that users read and the file that ddprun writes for them are one text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

// Each with what is put in its place; where several fit, the first one does.
using ExampleWords = std::vector<std::pair<std::string_view, std::string>>;

// In one pass: replacements are not searched again.
std::string FilledExample(std::string_view text, const ExampleWords& words);

}  // namespace ddprun

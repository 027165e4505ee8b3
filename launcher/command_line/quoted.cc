#include "launcher/command_line/quoted.h"

#include <string_view>

#include "common/text.h"

namespace ddprun {

std::string Quoted(const std::string& word) {
  if (HasOnly(word, "%+,-./:=@_")) {
    return word;
  }
  std::string text = "'";
  for (const char c : word) {  // A backslash means more in fish's quotes, and ! in those of csh.
    const bool outside = std::string_view("'\\!").find(c) != std::string_view::npos;
    text += outside ? std::string("'\\") + c + "'" : std::string(1, c);
  }
  return text + "'";
}

std::string QuotedLine(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    line += (line.empty() ? "" : " ") + Quoted(word);
  }
  return line;
}

}  // namespace ddprun

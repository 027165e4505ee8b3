#include "launcher/print_out.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "common/exit_code.h"
#include "common/files.h"
#include "common/log.h"

namespace ddprun {

int PrintOut(const std::string& text) {
  ::signal(SIGPIPE, SIG_DFL);  // As of other tools: `ddprun logs RUN | head` ends without a word.
  const Result<void> written = WriteAll(STDOUT_FILENO, text, "standard output");
  if (!written) {
    std::fprintf(stderr, "ddprun: error: %s\n", written.error().message.c_str());
    return 1;
  }
  return kExitOk;
}

int PrintError(const std::string& verb, const Error& error) {
  std::fprintf(stderr, "ddprun %s: error: %s\n", verb.c_str(), InOneLine(error.message).c_str());
  return error.kind == ErrorKind::kInvalid       ? kExitUsage
         : error.kind == ErrorKind::kUnavailable ? kExitUnavailable
                                                 : 1;
}

int PrintAnswer(const std::string& verb, const Result<std::string>& text) {
  return text ? PrintOut(*text) : PrintError(verb, text.error());
}

std::string AlignedRows(std::vector<std::vector<std::string>> rows, const std::string& indent) {
  std::vector<std::size_t> widths;
  for (auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = PrintableLine(row[i]);
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = indent;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += (i == 0 ? "" : "  ") + row[i] + std::string(widths[i] - row[i].size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace ddprun

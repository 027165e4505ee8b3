#include "launcher/end/python_frames.h"

#include <regex>

#include "common/text.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostOfALine = 1024;  // std::regex recurses.

bool IsLibrarys(const std::string& file) {
  for (const char* part :
       {"/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3"}) {
    if (file.find(part) != file.npos) {
      return true;
    }
  }
  return file.empty() || file.front() == '<';  // "<frozen runpy>"
}

}  // namespace

std::string InnermostFrame(std::string_view stacks) {
  static const std::regex by_py_spy(R"(^    (\S+) \((.+):(\d+)\)$)");
  static const std::regex by_faulthandler(R"re(^ *File "(.+)", line (\d+) in (\S+)$)re");
  for (const std::string& line : Split(stacks, '\n')) {
    std::smatch found;
    if (line.size() > kMostOfALine) {
      continue;
    }
    std::string file;
    std::string number;
    std::string function;
    if (std::regex_match(line, found, by_py_spy)) {
      function = found[1], file = found[2], number = found[3];
    } else if (std::regex_match(line, found, by_faulthandler)) {
      file = found[1], number = found[2], function = found[3];
    }
    if (!IsLibrarys(file)) {
      return file.substr(file.rfind('/') + 1) + ":" + number + " in " + function;
    }
  }
  return "";
}

}  // namespace ddprun

#include "launcher/end/python_frames.h"

#include <re2/re2.h>

#include "common/text.h"

namespace ddprun {
namespace {

bool IsLibrarys(const std::string& file) {
  for (const char* part :
       {"/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3"}) {
    if (file.find(part) != file.npos) {
      return true;
    }
  }
  return file.front() == '<';  // "<frozen runpy>"
}

}  // namespace

std::string InnermostFrame(std::string_view stacks) {
  static const RE2 by_py_spy(R"(    (\S+) \((.+):(\d+)\))", RE2::Latin1);
  static const RE2 by_faulthandler(R"re( *File "(.+)", line (\d+) in (\S+))re", RE2::Latin1);
  for (const std::string& line : Split(stacks, '\n')) {
    std::string file;
    std::string number;
    std::string function;
    const bool found = RE2::FullMatch(line, by_py_spy, &function, &file, &number) ||
                       RE2::FullMatch(line, by_faulthandler, &file, &number, &function);
    if (found && !IsLibrarys(file)) {
      return file.substr(file.rfind('/') + 1) + ":" + number + " in " + function;
    }
  }
  return "";
}

}  // namespace ddprun

#include "launcher/command_line/problems.h"

#include "common/log.h"

namespace ddprun {
void Problems::Add(const std::string& problem) {
  text += (text.empty() ? "" : "\n") + InOneLine(problem);
}

}  // namespace ddprun

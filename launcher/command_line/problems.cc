#include "launcher/command_line/problems.h"

#include "common/log.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostHead = 2000;
constexpr std::size_t kMostTail = 1000;  // What is to be done stands there.

}  // namespace

std::string InOneLine(const std::string& text) {
  std::string shown = text;
  if (text.size() > kMostHead + kMostTail) {
    const std::size_t cut = text.size() - kMostHead - kMostTail;
    shown.replace(kMostHead, cut, " ... (" + std::to_string(cut) + " bytes more) ... ");
  }
  return PrintableLine(shown);
}

void Problems::Add(const std::string& problem) {
  text += (text.empty() ? "" : "\n") + InOneLine(problem);
}

}  // namespace ddprun

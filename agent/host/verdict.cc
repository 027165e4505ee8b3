#include "agent/host/verdict.h"

#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

// With something to be seen in it.
std::string LastLineOf(const std::string& output) {
  const std::size_t end = output.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) {
    return "";
  }
  const std::size_t newline = output.find_last_of('\n', end);
  const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return output.substr(begin, end + 1 - begin);
}

// As a shell says it: found nothing of the name, or may not execute it.
bool CannotBeRun(const ExitStatus& status) {
  return status == ExitStatus(Exited{126}) || status == ExitStatus(Exited{127});
}

}  // namespace

void AppendCheckOutput(std::string& output, std::string_view bytes) {
  output += bytes;
  if (output.size() > kKeptCheckOutput) {
    output.erase(0, output.size() - kKeptCheckOutput);
  }
}

std::string VerdictOf(const CheckOutcome& outcome, Duration limit) {
  const std::string said = Printable(LastLineOf(outcome.output));
  std::string why;
  if (!outcome.error.empty()) {
    why = "cannot run it: " + Printable(outcome.error);
  } else if (!outcome.status) {
    why = "no result within " + FormatDuration(limit) + " (--node-check-timeout)" +
          (said.empty() ? "" : "; its last line: " + said);
  } else if (CannotBeRun(*outcome.status)) {
    why = "cannot run it: " + (said.empty() ? Describe(*outcome.status) : said);
  } else if (!Succeeded(*outcome.status)) {
    why = said.empty() ? Describe(*outcome.status) : said;
  }
  return Shortened(std::move(why), kMaxUnfit);
}

}  // namespace ddprun

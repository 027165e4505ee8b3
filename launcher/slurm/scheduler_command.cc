#include "launcher/slurm/scheduler_command.h"

#include <unistd.h>

#include <map>
#include <string_view>
#include <utility>

#include "common/log.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxPrinted = 64 << 10;

// For people, too: the author of these words is not known.
std::string Readable(std::string_view printed) {
  std::string text = Printable(printed.substr(0, kMaxPrinted));
  text.erase(text.find_last_not_of(" \n\t") + 1);
  return text;
}

// On the thread.
Result<std::string> Ask(ChildRun& child, const std::vector<std::string>& words) {
  WorkerSpec spec;
  ASSIGN_OR_RETURN(spec.command.file, FindProgram(words.front(), GetProcessEnv));
  spec.command.argv = words;
  spec.environment = ProcessEnvironment();
  spec.helper = true;
  std::map<int, std::string> printed;
  // With too much the reader goes, so that the command's next write is refused: endless output
  // would otherwise be held, or read, until the limit.
  ASSIGN_OR_RETURN(const auto status,
                   child.Run(spec, {.errors = true, .output = [&](int stream, auto bytes) {
                                      return printed[stream].append(bytes).size() <= kMaxPrinted;
                                    }}));
  if (!status) {
    return Error{ErrorKind::kUnavailable,
                 words.front() + " has ended, but its exit status is unknown"};
  }
  if (!Succeeded(*status)) {
    return Error{ErrorKind::kUnavailable, words.front() + " ended with " + Describe(*status) +
                                              ": " + Readable(printed[STDERR_FILENO])};
  }
  return Readable(printed[STDOUT_FILENO]);
}

}  // namespace

SchedulerCommand::SchedulerCommand(Loop& loop, const std::vector<std::string>& words,
                                   Duration limit, Done done) {
  const auto answer = std::make_shared<Result<std::string>>(std::string());
  loop.RunBounded(
      limit, [child = child_, answer, words] { *answer = Ask(*child, words); },
      life_.Guard(
          [this, answer, limit, name = words.front(), done = std::move(done)](bool in_time) {
            if (!in_time) {
              child_->GiveUp();
            }
            done(in_time ? *answer
                         : Error{ErrorKind::kUnavailable,
                                 name + " has not answered within " + FormatDuration(limit)});
          }));
}

}  // namespace ddprun

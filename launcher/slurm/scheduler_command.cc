#include "launcher/slurm/scheduler_command.h"

#include <unistd.h>

#include <map>
#include <string_view>
#include <utility>

#include "agent/workers/child_run.h"
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

}  // namespace

// The thread stays for as long as the process does, which would die with it (PDEATHSIG).
struct SchedulerCommand::Call {
  Result<std::string> Ask();  // On the thread.

  Done done;  // On the loop.
  std::vector<std::string> words;
  Result<std::string> answer = std::string();  // The thread's, until it has ended.
  ChildRun child;
};

Result<std::string> SchedulerCommand::Call::Ask() {
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

SchedulerCommand::~SchedulerCommand() {
  call_->done = nullptr;
  call_->child.GiveUp();
}

SchedulerCommand::SchedulerCommand(Loop& loop, const std::vector<std::string>& words,
                                   Duration limit, Done done)
    : call_(std::make_shared<Call>()) {
  call_->words = words;
  call_->done = std::move(done);
  loop.RunBounded(
      limit, [call = call_] { call->answer = call->Ask(); },
      [call = call_, limit](bool in_time) {
        if (!in_time) {
          call->child.GiveUp();
        }
        if (const Done done = std::exchange(call->done, nullptr)) {
          done(in_time ? call->answer
                       : Error{ErrorKind::kUnavailable, call->words.front() +
                                                            " has not answered within " +
                                                            FormatDuration(limit)});
        }
      });
}

}  // namespace ddprun

#include "launcher/end/run_failure.h"

#include <fcntl.h>

#include <csignal>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "agent/generation.h"
#include "agent/watch/error_file.h"
#include "agent/watch/evidence_bundle.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/end/failure_report.h"
#include "launcher/end/python_frames.h"
#include "launcher/end/termination_log.h"
#include "proto/worker_env.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr Duration kDiskLimit{1'000};
static_assert(kDiskLimit <= kBaseLease);  // The server may be here.

// A worker that had left its error and was then killed by ddprun: the signal says nothing about the
// cause.
bool EndIsOurs(const ExitStatus& status, const FailureDetails& details, bool stopped_by_us) {
  return stopped_by_us && std::holds_alternative<Killed>(status) && !details.message.empty() &&
         details.message != kMemoryRanOut;
}

FailedWorker ToFailed(std::uint32_t rank, std::uint32_t local_rank, std::int64_t pid,
                      const std::string& host, const ExitStatus& status,
                      const FailureDetails& details, bool stopped_by_us) {
  FailedWorker worker{rank,
                      local_rank,
                      pid,
                      host,
                      status,
                      {},
                      details.error_file,
                      details.message,
                      details.traceback};
  worker.stopped = EndIsOurs(status, details, stopped_by_us);
  if (details.unix_ms > 0) {
    worker.at.emplace(std::chrono::milliseconds(details.unix_ms));
  }
  return worker;
}

// Where it stood when it hung. `place`: where bundles are; empty: nowhere, and the file goes with
// the run.
void AddStacks(FailedWorker& worker, const LastAttempt& attempt, std::uint32_t local_rank,
               bool stays, const fs::path& place) {
  constexpr std::size_t kMostRead = 2 << 20;
  const fs::path file =
      place.empty() ? WorkersFile(attempt.directory, local_rank, kStacksFile, stays)
                    : RankFile(BundleOf(place, attempt.generation), worker.rank, kStacksFile);
  if (const Result<std::string> text = ReadOrdinary(file, kMostRead)) {
    worker.stands = InnermostFrame(*text);
    worker.stacks = place.empty() ? "" : file.native();
  }
}

// Where the scheduler started an agent for each worker, theirs are not counted from 0.
std::uint32_t FirstLocalRank(const LaunchConfig& config) {
  return config.context.task_slot ? config.context.task_slot->local_rank : 0;
}

FailureFacts Gather(const Exit& exit, const LaunchConfig& config, const LastAttempt& attempt,
                    bool stays, const fs::path& place) {
  const WorkerFailure& root = *exit.finish->root;
  FailureFacts facts;
  facts.program = config.program;
  facts.run_id = config.run_id;
  facts.summary = exit.finish->text;
  facts.exit_code = exit.code;
  facts.restarts_used = attempt.restarts_used;
  facts.max_restarts = config.spec.max_restarts;
  facts.requeues = config.context.requeues;
  facts.root = ToFailed(root.rank, root.local_rank, root.pid, root.host, root.status, root.details,
                        root.stopped_by_us);
  facts.hang = root.hang;
  facts.alone = config.spec.max_nodes == 1 && config.workers == 1;
  facts.nobody_lags = root.nobody_lags;
  facts.stopped = root.stopped_by_us;
  facts.ended_well = attempt.ended_well;
  facts.last_lines = Split(root.last_lines, '\n');
  const std::string host = HostName();
  for (const EndedWorker& ended : attempt.failed) {
    if (ended.rank != root.rank || ended.pid != root.pid || root.host != host) {
      facts.others.push_back(ToFailed(ended.rank, FirstLocalRank(config) + ended.local_rank,
                                      ended.pid, host, ended.status, ended.details,
                                      ended.stopped_by_us));
      AddStacks(facts.others.back(), attempt, ended.local_rank, stays, place);
      continue;
    }
    AddStacks(facts.root, attempt, ended.local_rank, stays, place);
    facts.ran = ended.ran;
    facts.on_console = config.workers == 1 && !config.KeepsOutput() && !config.DiscardsOutput() &&
                       !config.context.joins;
    const fs::path log = attempt.directory / std::to_string(ended.local_rank) / "stderr.log";
    std::error_code ignored;
    facts.log = stays && fs::exists(log, ignored) ? log.native() : "";
  }
  if (!facts.hang.empty() && facts.root.stands.empty()) {
    facts.root.stands = InnermostFrame(root.last_lines);  // faulthandler's, on its stderr.
  }
  std::error_code ignored;
  const fs::path bundle = BundleOf(place, attempt.generation);
  facts.evidence = !place.empty() && fs::is_directory(bundle, ignored) ? bundle.native() : "";
  return facts;
}

// A file of another program, which may have given a pipe, or a file in a directory that is not
// ours.
Result<void> WriteInPlace(const fs::path& path, const std::string& text) {
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644));
  return fd ? WriteAll(fd.get(), text, path)
            : Result<void>(SystemError("write", path.native(), errno));
}

// Where a disk is full, the old contents stay.
void WriteTextFile(const fs::path& path, const std::string& text) {
  std::error_code error;
  const fs::file_status there = fs::symlink_status(path, error);
  const fs::path parent = path.has_parent_path() ? path.parent_path() : ".";
  const bool plain = !fs::exists(there) || fs::is_regular_file(there);
  const Result<void> written = plain && ::access(parent.c_str(), W_OK) == 0
                                   ? WriteWhole(path, text, /*mode=*/0644)
                                   : WriteInPlace(path, text);
  if (!written) {
    Log(LogLevel::kWarning, written.error().message);
  }
}

// As torchrun's agent does for its own parent. Of a worker of this node the whole file, else the
// part that its node reported.
void CopyErrorFile(const WorkerFailure& root, const LaunchConfig& config,
                   const LastAttempt& attempt, const FailureFacts& facts, bool stays) {
  const auto own = GetProcessEnv("TORCHELASTIC_ERROR_FILE");
  if (!own || own->empty()) {
    return;
  }
  const std::optional<int> code =
      facts.root.stopped ? std::nullopt : std::optional(PythonCode(root.status));
  std::optional<std::string> text;
  if (facts.ran) {
    text = WithErrorCode(
        ReadErrorFile(WorkersFile(attempt.directory, root.local_rank - FirstLocalRank(config),
                                  kErrorFile, stays)),
        code);
  }
  text = text ? text : MakeErrorFile(root.details, code);
  if (text) {
    WriteTextFile(*own, *text);
  }
}

// With ddprun --hosts one user reads what all nodes say: the first host's node reports, unless it
// may have been replaced.
bool ReportsForAll(const LaunchConfig& config) {
  const LaunchContext& context = config.context;
  return context.scheduler != Scheduler::kHosts || context.index.value_or(0) == 0 ||
         HasFailover(config);
}

// Asks the disks, which may hang, and writes to them.
FailureFacts AskDisks(const Exit& exit, const LaunchConfig& config, const LastAttempt& attempt,
                      const fs::path& directory, bool stays, const fs::path& place) {
  FailureFacts found = Gather(exit, config, attempt, stays, place);
  if (stays) {
    const Result<void> written =
        WriteWhole(directory / "failure.json", FailureJson(found), /*mode=*/0644);
    if (!written) {
      Log(LogLevel::kWarning, written.error().message);
    }
  }
  CopyErrorFile(*exit.finish->root, config, attempt, found, stays);
  return found;
}

}  // namespace

std::string SayHowItEnded(const Exit& exit) {
  if (!exit.finish) {
    Log(LogLevel::kError, exit.text);
    return exit.text + "\n";
  }
  const Finish& finish = *exit.finish;
  if (finish.ending == Ending::kSucceeded) {
    Log(LogLevel::kDebug, finish.text);
    return "";
  }
  if (exit.code == kExitRestart) {
    const bool left = finish.ending == Ending::kLeft;
    Log(LogLevel::kInfo,
        std::string(left ? "left the run for the scheduler" : "stopped on request") +
            ", and saved: exit code 75, start this " + (left ? "node" : "run") + " again");
    return "";
  }
  const bool failed = finish.ending == Ending::kFailed && finish.exit_code != kExitInterrupted;
  Log(failed ? LogLevel::kError : LogLevel::kWarning,
      (failed ? "the run failed: " : "") + finish.text);
  return TerminationText(finish);
}

void WarnOfUncaughtSignal(const Exit& exit, const LastAttempt& attempt) {
  if (!exit.finish || exit.finish->root || exit.code == kExitRestart) {
    return;  // A failure is reported in full, and a run that has saved needs no advice.
  }
  std::set<std::uint32_t> ranks;
  int signal = 0;
  for (const EndedWorker& worker : attempt.failed) {
    const auto* const killed = std::get_if<Killed>(&worker.status);
    if (killed != nullptr && (killed->signal == SIGUSR1 || killed->signal == SIGUSR2)) {
      ranks.insert(worker.rank);
      signal = killed->signal;
    }
  }
  if (!ranks.empty()) {
    const bool one = ranks.size() == 1;
    Log(LogLevel::kWarning,
        (one ? "rank " : "ranks ") + RangesOf(ranks, ", ") + (one ? " was" : " were") +
            " ended by " + SignalName(signal) +
            ", which the program does not catch, so nothing may be saved. To save and be started "
            "again, catch it, save and end with 75 (ddprun help slurm)");
  }
}

void ReportFailure(Loop& loop, const Exit& exit, const LaunchConfig& config,
                   const LastAttempt& attempt, const RunDirectory& directory,
                   std::function<void()> done) {
  const auto found = std::make_shared<FailureFacts>();
  const bool stays = !directory.temporary();
  loop.RunBounded(
      kDiskLimit,
      [found, exit, config, attempt, stays, path = directory.path(),
       evidence = EvidencePlace(config.run_dir, directory)] {
        *found = AskDisks(exit, config, attempt, path, stays, evidence);
      },
      [found, exit, config, attempt, stays, place = directory.path().native(),
       done = std::move(done)](bool in_time) {
        if (!in_time) {
          Log(LogLevel::kWarning, "reading and writing the failure's evidence in " + place +
                                      " takes longer than " + FormatDuration(kDiskLimit) +
                                      " (is its file system responding?): continuing without it");
        }
        if (stays) {
          Log(LogLevel::kInfo, "logs are in " + place);
        }
        if (ReportsForAll(config)) {
          LogReport(
              LogLevel::kError,
              FormatFailureReport(in_time ? *found : Gather(exit, config, attempt, false, {})));
        }
        done();
      });
}

}  // namespace ddprun

#include "launcher/run_failure.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "agent/error_file.h"
#include "common/files.h"
#include "common/log.h"
#include "launcher/failure_report.h"
#include "proto/worker_env.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

FailedWorker ToFailed(std::uint32_t rank, std::uint32_t local_rank, std::int64_t pid,
                      const std::string& host, const ExitStatus& status,
                      const FailureDetails& details) {
  FailedWorker worker{rank,
                      local_rank,
                      pid,
                      host,
                      status,
                      {},
                      details.error_file,
                      details.message,
                      details.traceback};
  if (details.unix_ms > 0) {
    worker.at.emplace(std::chrono::milliseconds(details.unix_ms));
  }
  return worker;
}

// Where it stood when it hung.
void AddStacks(FailedWorker& worker, const LastAttempt& attempt, bool stays) {
  std::error_code ignored;
  const fs::path file = attempt.directory / std::to_string(worker.local_rank) / kStacksFile;
  worker.stacks = stays && fs::exists(file, ignored) ? file.native() : "";
}

FailureFacts Gather(const Exit& exit, const LaunchConfig& config, const LastAttempt& attempt,
                    bool stays) {
  const WorkerFailure& root = *exit.finish->root;
  FailureFacts facts;
  facts.program = config.program;
  facts.run_id = config.run_id;
  facts.summary = exit.finish->text;
  facts.exit_code = exit.code;
  facts.restarts_used = attempt.restarts_used;
  facts.max_restarts = config.max_restarts;
  facts.root = ToFailed(root.rank, root.local_rank, root.pid, root.host, root.status, root.details);
  facts.hang = root.hang;
  facts.nobody_lags = root.nobody_lags;
  std::istringstream lines(root.last_lines);
  for (std::string line; std::getline(lines, line);) {
    facts.last_lines.push_back(line);
  }
  char host[256] = "localhost";
  (void)!::gethostname(host, sizeof host - 1);
  for (const EndedWorker& ended : attempt.failed) {
    if (ended.rank != root.rank || ended.pid != root.pid || root.host != host) {
      facts.others.push_back(
          ToFailed(ended.rank, ended.local_rank, ended.pid, host, ended.status, ended.details));
      AddStacks(facts.others.back(), attempt, stays);
      continue;
    }
    AddStacks(facts.root, attempt, stays);
    facts.ran = ended.ran;
    const fs::path log = attempt.directory / std::to_string(ended.local_rank) / "stderr.log";
    std::error_code ignored;
    facts.log = stays && fs::exists(log, ignored) ? log.native() : "";
  }
  return facts;
}

void WriteTextFile(const fs::path& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  const Result<void> written = fd ? WriteAll(fd.get(), text, path)
                                  : Result<void>(SystemError("write", path.native(), errno));
  if (!written) {
    Log(LogLevel::kWarning, written.error().message);
  }
}

// As torchrun's agent does for its own parent. Of a worker of this node the whole file, else what
// its node told of it.
void CopyErrorFile(const WorkerFailure& root, const LastAttempt& attempt,
                   const FailureFacts& facts) {
  const auto own = GetProcessEnv("TORCHELASTIC_ERROR_FILE");
  if (!own || own->empty()) {
    return;
  }
  const Killed* const killed = std::get_if<Killed>(&root.status);
  const int code = killed != nullptr ? -killed->signal : std::get<Exited>(root.status).code;
  std::optional<std::string> text;
  if (facts.ran) {
    text = WithErrorCode(ReadErrorFile(ErrorFileOf(attempt, root.local_rank)), code);
  }
  text = text ? text : MakeErrorFile(root.details, code);
  if (text) {
    WriteTextFile(*own, *text);
  }
}

}  // namespace

std::uint64_t OomKills() {
  std::ifstream membership("/proc/self/cgroup");
  for (std::string line; std::getline(membership, line);) {
    const bool unified = line.starts_with("0::");
    const std::size_t memory = line.find(":memory:");
    if (!unified && memory == std::string::npos) {
      continue;
    }
    const std::string group = line.substr(unified ? 3 : memory + 8);
    std::ifstream events(unified ? "/sys/fs/cgroup" + group + "/memory.events"
                                 : "/sys/fs/cgroup/memory" + group + "/memory.oom_control");
    std::string name;
    for (std::uint64_t count = 0; events >> name >> count;) {
      if (name == "oom_kill") {
        return count;
      }
    }
  }
  return 0;
}

void ReportFailure(const Exit& exit, const LaunchConfig& config, const LastAttempt& attempt,
                   const RunDirectory& directory, std::uint64_t oom_kills_at_start) {
  FailureFacts facts = Gather(exit, config, attempt, !directory.temporary());
  facts.oom_kills_grew = OomKills() > oom_kills_at_start;
  if (!directory.temporary()) {
    WriteTextFile(directory.path() / "failure.json", FailureJson(facts));
    Log(LogLevel::kError, "logs are in " + directory.path().native());
  }
  CopyErrorFile(*exit.finish->root, attempt, facts);
  const Result<void> said = WriteAll(STDERR_FILENO, FormatFailureReport(facts), "standard error");
  (void)said;  // Nobody listens: the exit code is left.
}

}  // namespace ddprun

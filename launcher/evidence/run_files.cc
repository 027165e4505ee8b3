#include "launcher/evidence/run_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <random>
#include <utility>

#include "common/files.h"
#include "common/ids.h"
#include "common/json.h"
#include "launcher/evidence/run_page.h"
#include "launcher/evidence/run_trace.h"
#include "rendezvous/real_names.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kEvidenceMode = 0644;
constexpr std::size_t kMostState = std::size_t{64} << 20;  // Of another server's.

Result<void> BeOrdinary(const fs::path& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    return Error{ErrorKind::kRefused, "cannot write '" + path.native() +
                                          "': it is no ordinary file (a FIFO, a device or a link)"};
  }
  return {};
}

}  // namespace

struct RunFiles::Shared {
  explicit Shared(fs::path where) : directory(std::move(where)) {}

  const fs::path directory;
  // No two servers make their files under one name.
  const std::string own = ".new-" + Hex(std::random_device{}());

  std::mutex mutex;  // Of the next.
  std::optional<RunStory> waiting;

  struct stat mine {};  // Of the state that was written last. By whose turn it is, as all below.

  bool Waits() {
    const std::lock_guard lock(mutex);
    return waiting.has_value();
  }

  // The newest one counts.
  void Put(RunStory story) {
    const std::lock_guard lock(mutex);
    waiting = std::move(story);
  }

  Result<void> Write() {
    std::optional<RunStory> story;
    {
      const std::lock_guard lock(mutex);
      story.swap(waiting);
    }
    Result<void> written = story ? Write(*story) : Result<void>();
    if (!written) {
      const std::lock_guard lock(mutex);
      waiting = waiting ? std::move(waiting) : std::move(story);
    }
    return written;
  }

  // One that cannot be written keeps no other from it.
  Result<void> Write(const RunStory& story) {
    if (IsOvertaken(story)) {
      return {};
    }
    Result<void> state = Replace(kStateFile, JsonText(StateInJson(story)) + "\n");
    if (state && ::lstat((directory / kStateFile).c_str(), &mine) != 0) {
      mine = {};
    }
    if (story.whole) {
      Result<void> report = Replace(kReportFile, RunPage(story));
      Result<void> trace = Replace(kTraceFile, RunTrace(story));
      RETURN_IF_ERROR(report);
      RETURN_IF_ERROR(trace);
    }
    return state;
  }

  // A server that stood still may come back when a later one has ended the run. Read only where
  // somebody else has written it since.
  bool IsOvertaken(const RunStory& story) const {
    struct stat found {};
    const fs::path path = directory / kStateFile;
    if (::lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode) ||
        (found.st_ino == mine.st_ino && found.st_mtim.tv_sec == mine.st_mtim.tv_sec &&
         found.st_mtim.tv_nsec == mine.st_mtim.tv_nsec)) {
      return false;
    }
    const Result<std::string> text = ReadOrdinary(path, kMostState);
    const nlohmann::json json = text ? ParseJson(*text) : nlohmann::json();
    const bool told = json.is_object() && json.contains("run_id") && json.contains("term") &&
                      json["term"].is_number_unsigned() && json["run_id"] == story.run.run_id;
    const Term term{told ? json["term"].get<std::uint64_t>() : 0};
    // What cannot be real is nobody's.
    return term > story.term && term <= RealNamesAt(story.unix_ms, kServersAhead).term;
  }

  Result<void> Replace(const char* name, const std::string& text) const {
    const fs::path path = directory / name;
    const fs::path made = path.native() + own;
    RETURN_IF_ERROR(BeOrdinary(path));
    RETURN_IF_ERROR(WriteWhole(made, text, kEvidenceMode));
    if (::rename(made.c_str(), path.c_str()) != 0) {
      const Error refused = SystemError("give its name to", path.native(), errno);
      (void)std::remove(made.c_str());
      return refused;
    }
    return {};
  }
};

RunFiles::RunFiles(Loop& loop, const fs::path& directory, RunId run_id, std::string node)
    : loop_(loop),
      node_(std::move(node)),
      any_run_(run_id.empty()),
      run_id_(std::move(run_id)),
      shared_(std::make_shared<Shared>(directory)),
      writer_(loop, {.place = (directory / kStateFile).native(),
                     .consequence = "what the run looks like is not in that directory (state.json, "
                                    "report.html, trace.json) until it can be written",
                     .write = [shared = shared_] { return shared->Write(); },
                     .waits = [shared = shared_] { return shared->Waits(); }}),
      timer_(loop) {}

void RunFiles::Begin(Look look, Term term) {
  look_ = std::move(look);
  term_ = term;
  last_.reset();
  LookAgain();
}

void RunFiles::Note(const RunId& run_id, const RunEvent& event) {
  const bool over = last_ && !last_->outcome.empty();
  if (any_run_ && run_id != run_id_ && (run_id_.empty() || over)) {
    Take(/*last=*/true);
    run_id_ = run_id;
    teller_ = {};
    last_.reset();
  }
  if (run_id == run_id_) {
    teller_.Note(event);
  }
}

void RunFiles::Stop() {
  look_ = nullptr;
  timer_.Cancel();
}

void RunFiles::LookLast() {
  Take(/*last=*/true);
  Stop();
}

void RunFiles::LookAgain() {
  timer_.ArmAt(loop_.Now() + kPeriod, [this] {
    Take(/*last=*/false);
    LookAgain();
  });
}

void RunFiles::Take(bool last) {
  std::optional<RunStatus> run = look_ && !run_id_.empty() ? look_(run_id_) : std::nullopt;
  if (!run) {
    return;
  }
  const std::int64_t now = UnixMilliseconds();
  teller_.Look(*run, now);
  RunStatus bare = WithoutAges(*run);
  const bool over = !run->outcome.empty();
  if (last_ != bare || (last && !over)) {  // Its end is told as of then.
    last_ = std::move(bare);
    teller_.AddLastSeen(*run);
    RunStory story{.run = *std::move(run),
                   .unix_ms = now,
                   .term = term_,
                   .node = node_,
                   .whole = over || last};
    if (story.whole) {
      story.events = teller_.Events();
      story.points = teller_.points();
    }
    if (!over && last) {
      story.remark = "not over when its server ended";
    }
    shared_->Put(std::move(story));
  }
  if (shared_->Waits()) {
    writer_.Write();
  }
}

}  // namespace ddprun

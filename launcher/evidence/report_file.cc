#include "launcher/evidence/report_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "common/files.h"
#include "common/ids.h"
#include "common/wall_clock.h"
#include "launcher/evidence/run_page.h"
#include "rendezvous/term_bounds.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kEvidenceMode = 0644;

Result<void> BeOrdinary(const fs::path& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    return Error{ErrorKind::kRefused,
                 "cannot write '" + path.native() +
                     "': it is not an ordinary file (a FIFO, a device or a link)"};
  }
  return {};
}

}  // namespace

struct ReportFile::Shared {
  explicit Shared(fs::path where) : directory(std::move(where)) {}

  const fs::path directory;
  // No two servers make their files under one name.
  const std::string own = ".new-" + Hex(RandomBits());

  Result<void> Write(const RunOverview& overview) {
    return IsOvertaken(overview) ? Result<void>() : Replace(kReportFile, RunPage(overview));
  }

  // A server that stood still may come back when a later one has ended the run.
  bool IsOvertaken(const RunOverview& overview) const {
    const OrderedJson run = RunInReport(directory / kReportFile);
    const auto term = run.find("term");
    const bool told = run.value("run_id", OrderedJson()) == overview.run.run_id &&
                      term != run.end() && term->is_number_unsigned();
    const Term other{told ? term->get<std::uint64_t>() : 0};
    // A term that cannot be real is ignored.
    return other > overview.term && other <= TermBoundsAt(overview.unix_ms, kServersAhead).term;
  }

  Result<void> Replace(const char* name, const std::string& text) const {
    const fs::path path = directory / name;
    const fs::path made = path.native() + own;
    RETURN_IF_ERROR(BeOrdinary(path));
    RETURN_IF_ERROR(WriteWhole(made, text, kEvidenceMode));
    if (::rename(made.c_str(), path.c_str()) != 0) {
      const Error refused = SystemError("put the new report in place of", path.native(), errno);
      (void)std::remove(made.c_str());
      return refused;
    }
    return {};
  }
};

ReportFile::ReportFile(Loop& loop, const fs::path& directory, RunId run_id, std::string node)
    : loop_(loop),
      node_(std::move(node)),
      any_run_(run_id.empty()),
      run_id_(std::move(run_id)),
      shared_(std::make_shared<Shared>(directory)),
      writer_(loop, {.place = (directory / kReportFile).native(),
                     .consequence = "how the run ended is not in that file until it can be written",
                     .room = 1}),
      timer_(loop) {}

void ReportFile::Begin(Look look, Term term) {
  look_ = std::move(look);
  term_ = term;
  last_.reset();
  LookAgain();
}

void ReportFile::Note(const RunId& run_id, const RunEvent& event) {
  const bool over = last_ && !last_->outcome.empty();
  if (any_run_ && run_id != run_id_ && (run_id_.empty() || over)) {
    Take(/*last=*/true);
    run_id_ = run_id;
    collector_ = {};
    last_.reset();
  }
  if (run_id == run_id_) {
    collector_.Note(event);
  }
}

void ReportFile::Stop() {
  look_ = nullptr;
  timer_.Cancel();
}

void ReportFile::LookLast() {
  Take(/*last=*/true);
  Stop();
}

void ReportFile::LookAgain() {
  timer_.ArmAt(loop_.Now() + kPeriod, [this] {
    Take(/*last=*/false);
    LookAgain();
  });
}

void ReportFile::Take(bool last) {
  std::optional<RunStatus> run = look_ && !run_id_.empty() ? look_(run_id_) : std::nullopt;
  if (!run) {
    return;
  }
  const std::int64_t now = UnixMilliseconds();
  collector_.Look(*run);
  const bool over = !run->outcome.empty();
  RunStatus bare = WithoutAges(*run);
  if ((over || last) && (last_ != bare || !over)) {  // The page shows the end as of then.
    last_ = std::move(bare);
    collector_.AddLastSeen(*run);
    writer_.Write([shared = shared_,
                   overview = RunOverview{.run = *std::move(run),
                                          .unix_ms = now,
                                          .term = term_,
                                          .node = node_,
                                          .remark = over ? "" : "not over when its server ended",
                                          .events = collector_.Events()}] {
      return shared->Write(overview);
    });
  } else {
    writer_.WriteAgain();
  }
}

}  // namespace ddprun

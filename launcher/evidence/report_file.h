// A file that shows a run and its end, in the run's directory, written by the server: report.html,
// the status page with all that it showed, at the run's end or at that of its server.
//
// It is replaced at once or stays as it was. A path that is not an ordinary file is left alone, and
// so is the page that a later server of the run has written. A disk that hangs or is full holds
// nothing up (background_writer.h).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/loop.h"
#include "launcher/evidence/background_writer.h"
#include "launcher/evidence/run_overview.h"

namespace ddprun {

inline constexpr const char* kReportFile = "report.html";

class ReportFile {
 public:
  static constexpr Duration kPeriod{1'000};

  // The server's status of a run; nullopt: it does not know it.
  using Look = std::function<std::optional<RunStatus>(const RunId&)>;

  // `run_id`: empty: the run that has the first event, and after its end the next one's. `node`:
  // that hosts the server, for people.
  ReportFile(Loop& loop, const std::filesystem::path& directory, RunId run_id, std::string node);
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  // All on the loop. The server is here, and this is its term;
  void Begin(Look look, Term term);
  // this has happened to a run of it;
  void Note(const RunId& run_id, const RunEvent& event);
  // it is no more, and another one may be;
  void Stop();
  // or it ends right now, with the process.
  void LookLast();

  // The loop has ended.
  void Finish(Duration limit) { writer_.Finish(limit); }

 private:
  struct Shared;  // With the thread.

  void LookAgain();
  void Take(bool last);

  Loop& loop_;
  const std::string node_;
  const bool any_run_;
  RunId run_id_;
  Look look_;  // None: no server is here.
  Term term_;
  OverviewCollector collector_;
  std::optional<RunStatus> last_;  // Without ages.
  const std::shared_ptr<Shared> shared_;
  BackgroundWriter writer_;
  LoopTimer timer_;
};

}  // namespace ddprun

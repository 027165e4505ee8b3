#include "launcher/verbs/report.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/json.h"
#include "common/log.h"
#include "common/slug.h"
#include "launcher/evidence/report_file.h"
#include "launcher/evidence/run_archive.h"
#include "launcher/evidence/run_page.h"
#include "launcher/verbs/log_files.h"
#include "launcher/verbs/status.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostDirectories = 256;  // Each is open while they are packed.
constexpr std::size_t kMostEventsRead = std::size_t{64} << 20;
constexpr Duration kHelloPatience{1'000};

struct KnownRun {
  std::string run_id;             // As a directory has it; empty: none has.
  bool over = false;              // So says a directory's page.
  std::optional<RunStatus> live;  // As its server tells.
  std::vector<fs::path> directories;
};

// By its page, which is there at its end, else by the first of its events.
void LookInto(const fs::path& directory, KnownRun& known) {
  const OrderedJson run = RunInReport(directory / kReportFile);
  known.run_id = TextIn(run, "run_id");
  known.over = !TextIn(run, "outcome").empty();
  if (!known.run_id.empty()) {
    return;
  }
  if (const auto events = ReadOrdinary(directory / "events.jsonl", kMostEventsRead)) {
    known.run_id = TextIn(ParseJson<OrderedJson>(events->substr(0, events->find('\n'))), "run_id");
  }
}

Result<RunStatus> AskThere(const ServerPlace& place, const RunId& run_id) {
  ASSIGN_OR_RETURN(std::vector<RunStatus> runs, RunsAt(place, run_id));
  if (runs.size() != 1) {
    return Error{ErrorKind::kInvalid, "the server at " + place.Where() + " has " +
                                          std::to_string(runs.size()) +
                                          " runs. Select one with --rdzv-id (ddprun status lists "
                                          "them)"};
  }
  return std::move(runs.front());
}

// The arguments may belong to a run that is over, or whose server died.
std::optional<RunStatus> AskServerOf(const KnownRun& known, ServerQuery query) {
  if (known.over) {
    return std::nullopt;
  }
  if (query.run_id.empty()) {
    query.run_id = known.run_id;
  }
  for (const fs::path& directory : known.directories) {
    query.run_dir = query.endpoint.empty() ? directory.native() : "";
    const Result<ServerPlace> place = FindServer(query);
    if (!place || !Answers(*place, kHelloPatience)) {
      continue;
    }
    if (auto run = AskThere(*place, query.run_id)) {
      return *std::move(run);
    }
  }
  return std::nullopt;
}

Result<KnownRun> Know(const ReportRequest& request) {
  KnownRun known;
  for (const std::string& given : request.directories) {
    ASSIGN_OR_RETURN(std::vector<fs::path> found, DirectoriesOfRun(given));
    std::ranges::move(found, std::back_inserter(known.directories));
  }
  if (known.directories.size() > kMostDirectories) {
    return Invalid(
        "ddprun report takes " + std::to_string(kMostDirectories) + " run directories at most",
        std::to_string(known.directories.size()));
  }
  const std::string& run_dir = request.server.run_dir;
  if (known.directories.empty() && !run_dir.empty() && request.server.endpoint.empty()) {
    known.directories.emplace_back(run_dir);
  }
  if (!known.directories.empty()) {
    for (std::size_t i = 0; i < known.directories.size() && known.run_id.empty(); ++i) {
      LookInto(known.directories[i], known);
    }
    known.live = AskServerOf(known, request.server);
    return known;
  }
  const Result<ServerPlace> place = FindServer(request.server);
  if (!place) {
    return Error{place.error().kind,
                 Continue(place.error().message,
                          "; for a run that has ended, name its directory: ddprun report DIR")};
  }
  ASSIGN_OR_RETURN(known.live, AskThere(*place, request.server.run_id));
  if (!place->directory.empty()) {
    known.directories.push_back(place->directory);
  }
  return known;
}

std::string NameOfRun(const KnownRun& known) {
  if (known.live) {
    return known.live->run_id;
  }
  if (!known.run_id.empty()) {
    return known.run_id;
  }
  std::error_code ignored;
  return fs::weakly_canonical(known.directories.front(), ignored).filename().native();
}

void AddPage(const KnownRun& known, ArchiveContents& contents) {
  if (known.live) {
    RunOverview overview;
    overview.run = *known.live;
    overview.unix_ms = contents.unix_time * 1'000;
    overview.term = known.live->events.empty() ? Term{} : known.live->events.back().term;
    overview.events = known.live->events;
    contents.made.push_back({kReportFile, RunPage(overview)});
    contents.made.push_back({"status.json", JsonText(StateInJson(overview)) + "\n"});
    contents.remarks.emplace_back(
        "The page shows the run as its server reported it when this was packed.");
    return;
  }
  if (!known.over) {
    contents.remarks.emplace_back("No server of the run answered.");
  }
}

Result<Archived> PackInto(const std::string& name, IfThere if_there,
                          const ArchiveContents& contents) {
  RETURN_IF_ERROR(MayBeWritten(name, if_there));
  TarGz archive;
  ASSIGN_OR_RETURN(const Archived packed, ArchiveRun(contents, archive, {}));
  if (packed.files == 0) {
    return Error{ErrorKind::kNotFound, "no files of a run in '" +
                                           contents.directories.front().native() +
                                           "' (is it <log dir>/<run>_<...>, or a --run-dir?)"};
  }
  RETURN_IF_ERROR(WriteArchive(name, if_there, archive.Finish()));
  return packed;
}

}  // namespace

Result<std::string> PackReport(const ReportRequest& request) {
  ASSIGN_OR_RETURN(const KnownRun known, Know(request));
  ArchiveContents contents;
  contents.root = "ddprun-report-" + AsFileName(NameOfRun(known));
  contents.directories = known.directories;
  contents.unix_time = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  AddPage(known, contents);
  const bool named = !request.file.empty();
  const std::string name = named ? request.file : contents.root + ".tar.gz";
  ASSIGN_OR_RETURN(const Archived packed,
                   PackInto(name, named ? IfThere::kReplace : IfThere::kKeep, contents));
  if (request.json) {
    OrderedJson told;
    told["file"] = name;
    told["files"] = packed.files;
    told["bytes"] = packed.bytes;
    told["left_out"] = packed.left_out;
    return JsonText(told, 2) + "\n";
  }
  const std::string left =
      packed.left_out == 0 ? ""
                           : "; " + std::to_string(packed.left_out) + " left out, see its MANIFEST";
  return Printable(name + ": " + std::to_string(packed.files) + " files, " +
                   std::to_string(packed.bytes) + " bytes" + left + "\n");
}

}  // namespace ddprun

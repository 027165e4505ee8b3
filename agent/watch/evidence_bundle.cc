#include "agent/watch/evidence_bundle.h"

#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <chrono>
#include <ctime>

#include "common/files.h"
#include "common/text.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOfKernelFile = 64 * 1024;
constexpr std::size_t kMostOfMeminfo = 10;  // Lines: the rest are details.
constexpr std::size_t kMostLooked = 10'000;
constexpr unsigned kPartMode = 0600;

// Its first lines, indented below its name; "" where it cannot be read.
std::string Quoted(const fs::path& path, std::size_t most_lines) {
  const Result<std::string> text = ReadFile(path, kMostOfKernelFile);
  if (!text || text->empty()) {
    return "";
  }
  std::string quoted = path.native() + ":\n";
  for (const std::string& line : Split(*text, '\n')) {
    quoted += most_lines > 0 ? "  " + line + "\n" : "";
    most_lines -= most_lines > 0 ? 1 : 0;
  }
  return quoted;
}

std::string Machine(const std::string& node) {
  utsname kernel{};
  ::uname(&kernel);
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char when[32];
  (void)std::strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return "node " + node + " at " + when + "\n" + kernel.sysname + " " + kernel.release + " " +
         kernel.machine + "\n";
}

std::string RoomOn(const fs::path& place) {
  struct statvfs disk {};
  if (::statvfs(place.c_str(), &disk) != 0) {
    return "";
  }
  const auto mebibytes = [&](std::uint64_t blocks) {
    return std::to_string(blocks * disk.f_frsize >> 20);
  };
  return place.native() + ": " + mebibytes(disk.f_bavail) + " MiB of " + mebibytes(disk.f_blocks) +
         " free\n";
}

std::string Process(const ProcessOfRank& one) {
  const Result<std::string> status =
      ReadFile("/proc/" + std::to_string(one.pid) + "/status", kMostOfKernelFile);
  std::string text = "rank " + std::to_string(one.rank) + " (pid " + std::to_string(one.pid) + "):";
  if (!status) {
    return text + " gone\n";
  }
  for (const std::string& line : Split(*status, '\n')) {
    for (const char* const name : {"State:", "VmRSS:", "VmSwap:", "Threads:"}) {
      if (line.starts_with(name)) {
        std::string value(line);
        std::erase(value, '\t');
        text += " " + value;
      }
    }
  }
  return text + "\n";
}

std::string NodeFacts(const NodePart& part, const fs::path& place) {
  std::string text = Machine(part.node) +
                     (part.logs.empty() ? "" : "logs: " + part.logs.native() + "\n") +
                     RoomOn(place) + Quoted("/proc/uptime", 1) + Quoted("/proc/loadavg", 1) +
                     Quoted("/proc/meminfo", kMostOfMeminfo);
  for (const char* const kind : {"cpu", "io", "memory"}) {
    text += Quoted(fs::path("/proc/pressure") / kind, 2);
  }
  for (const ProcessOfRank& one : part.workers) {
    text += Process(one);
  }
  return text;
}

}  // namespace

fs::path BundleOf(const fs::path& place, Generation generation) {
  return place / (kBundlePrefix + std::to_string(generation.value));
}

fs::path RankFile(const fs::path& bundle, std::uint32_t rank, const std::string& what) {
  return bundle / ("rank-" + std::to_string(rank) + "." + what);
}

fs::path DumpFile(const fs::path& bundle, std::uint32_t rank) {
  return bundle / (kDumpPrefix + std::to_string(rank));
}

Result<void> MakeBundle(const fs::path& bundle) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(bundle, error))) {
    return CheckOwnDirectory(bundle);
  }
  std::size_t there = 0;
  for (const fs::path& path : EntriesOf(bundle.parent_path(), kMostLooked)) {
    there += path.filename().native().starts_with(kBundlePrefix) ? 1 : 0;
  }
  if (there >= kMostBundles) {
    return Error{ErrorKind::kRefused, "'" + bundle.parent_path().native() +
                                          "' already has the evidence of " + std::to_string(there) +
                                          " generations, and no more is kept"};
  }
  return MakeDirectories(bundle, 0700);
}

Result<void> WriteNodePart(const fs::path& bundle, const NodePart& part) {
  RETURN_IF_ERROR(MakeBundle(bundle));
  Result<void> all;  // One that cannot be written keeps no other from it.
  const auto write = [&](const fs::path& path, const std::string& text) {
    const Result<void> written = WriteWhole(path, text, kPartMode);
    all = all ? written : all;
  };
  for (const auto& [rank, lines] : part.last_lines) {
    if (!lines.empty()) {
      write(RankFile(bundle, rank, "lines.txt"), lines);
    }
  }
  write(bundle / ("node-" + AsFileName(part.node) + ".txt"), NodeFacts(part, bundle));
  return all;
}

}  // namespace ddprun

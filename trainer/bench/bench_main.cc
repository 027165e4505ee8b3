// ddprun-bench-comm: measures the cost of communication between the ranks, and checks its results.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/exit_code.h"
#include "common/files.h"
#include "common/format.h"
#include "common/log.h"
#include "common/text.h"
#include "proto/worker_env.h"
#include "trainer/bench/check.h"
#include "trainer/bench/measure.h"
#include "trainer/device/choose_device.h"
#include "trainer/learning/torch_settings.h"
#include "trainer/options/command_line.h"

namespace ddprun {
namespace {

constexpr int kExitWrong = 1;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

struct BenchOptions {
  // Every collective is checked once; false: they are timed.
  bool check = false;
  // The message sizes: one that is no multiple of 4, or above 1 GiB, is refused.
  std::vector<std::int64_t> bytes = {4, 1 << 10, 16 << 10, 256 << 10, 4 << 20};
  // How often each is timed: few give a noisy median.
  std::int64_t rounds = 30;
  // The file of the table; empty: none is written.
  std::filesystem::path csv;
  // The time after which a silent peer counts as lost: too short ends it at a slow message.
  std::string collective_timeout = "60";
  // Where tensors are: with a GPU for each rank NCCL is timed too.
  std::string device = "auto";
};

std::vector<std::string> Problems(const BenchOptions& options) {
  std::vector<std::string> problems;
  for (const std::int64_t bytes : options.bytes) {
    if (bytes < 4 || bytes > kMostBytes || bytes % 4 != 0) {
      problems.push_back("--bytes must be multiples of 4 up to 1 GiB (they are 32-bit floats), " +
                         std::to_string(bytes) + " is not");
    }
  }
  if (options.rounds < 1 || options.rounds > 100'000) {
    problems.push_back("--rounds must be 1 to 100000, not " + std::to_string(options.rounds));
  }
  if (!ParseDevice(options.device)) {
    problems.push_back("--device must be auto, cpu, cuda or cuda:N, not '" + options.device + "'");
  }
  CheckCollectiveTimeout(problems, options.collective_timeout);
  return problems;
}

std::variant<BenchOptions, EarlyExit> ParseBench(int argc, const char* const* argv) {
  BenchOptions options;
  CLI::App app(
      "Measures what communication between ranks costs, and checks every collective.\n"
      "Run it under ddprun or torchrun with two ranks or more:\n"
      "  ddprun --nproc-per-node=2 ddprun-bench-comm",
      "ddprun-bench-comm");
  app.option_defaults()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->always_capture_default();
  app.add_flag("--check", options.check,
               "Check every collective with every operation, instead of measuring");
  app.add_option("--bytes", options.bytes, "Message sizes")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--rounds", options.rounds, "Times each is measured");
  app.add_option("--csv", options.csv, "Write the table to this file too");
  app.add_option("--device", options.device,
                 "auto, cpu, cuda or cuda:N: on GPUs NCCL is measured and checked too");
  app.add_option("--collective-timeout", options.collective_timeout, kCollectiveTimeoutHelp)
      ->type_name("DURATION");
  app.set_version_flag(
      "--version", "ddprun-bench-comm " DDPRUN_VERSION " (libtorch " DDPRUN_LIBTORCH_VERSION ")");
  if (const auto exit = ParseWords(app, argc, argv)) {
    return *exit;
  }
  if (const std::vector<std::string> problems = Problems(options); !problems.empty()) {
    return WrongCommandLine(app, problems);
  }
  return options;
}

// A group that lost a peer cannot be destroyed in bounded time.
[[noreturn]] void EndAtOnce(const Error& error) {
  Log(LogLevel::kError, error.message);
  std::fflush(nullptr);
  _exit(error.kind == ErrorKind::kUnavailable ? kExitRestart
        : error.kind == ErrorKind::kSystem    ? kExitWrong
                                              : kExitUsage);
}

// A table on rank 0's stdout, and in a file when one is asked for.
class Table {
 public:
  Table(bool shown, std::filesystem::path csv, std::string header)
      : shown_(shown), csv_(std::move(csv)), lines_(std::move(header) + "\n") {}

  void Row(const std::string& line, const std::string& csv) {
    if (shown_) {
      std::puts(line.c_str());
      std::fflush(stdout);
      lines_ += csv.empty() ? "" : csv + "\n";
    }
  }
  Result<void> Save() const {
    if (!shown_ || csv_.empty()) {
      return {};
    }
    const UniqueFd file(::open(csv_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    return file ? WriteAll(file.get(), lines_, csv_) : SystemError("write", csv_.string(), errno);
  }

 private:
  const bool shown_;
  const std::filesystem::path csv_;
  std::string lines_;
};

std::string SizeText(std::int64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) {
    return std::to_string(bytes >> 20) + " MiB";
  }
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) {
    return std::to_string(bytes >> 10) + " KiB";
  }
  return std::to_string(bytes) + " B";
}

struct Groups {
  std::unique_ptr<ProcessGroup> gloo;
  std::unique_ptr<ProcessGroup> shared;  // Null where no ranks share memory.
  std::unique_ptr<ProcessGroup> nccl;    // Null where they have no GPUs.

  const char* shared_name() const {
    return shared && shared->backend() == "nodes" ? "node by node" : "shared memory";
  }
};

constexpr const char* kGloo = "gloo";
constexpr const char* kNccl = "nccl";

// Whether everything was right.
Result<bool> Check(const Groups& groups, const BenchOptions& options) {
  ProcessGroup& group = *groups.gloo;
  std::vector<CheckedRow> rows;
  for (const auto& [checked, name] :
       {std::pair(&groups.gloo, kGloo), std::pair(&groups.shared, groups.shared_name()),
        std::pair(&groups.nccl, kNccl)}) {
    if (*checked) {
      ASSIGN_OR_RETURN(const std::vector<CheckedRow> more, CheckCollectives(**checked, name));
      rows.insert(rows.end(), more.begin(), more.end());
    }
  }
  Table table(group.rank() == 0, options.csv, "collective,operation,made_by,ranks,right");
  table.Row(Format("%-15s %-8s %-22s %s", "collective", "op", "made by", "result"), "");
  bool all_right = true;
  for (const CheckedRow& row : rows) {
    // A collective that the library lacks is made here: the row after it.
    const bool lacking = row.made_by.starts_with("not in ");
    all_right = all_right && (row.right || lacking);
    const char* const result = row.right ? "right" : lacking ? "-" : "WRONG";
    table.Row(Format("%-15s %-8s %-22s %s", row.collective.c_str(), row.operation.c_str(),
                     row.made_by.c_str(), result),
              Format("\"%s\",%s,%s,%u,%s", row.collective.c_str(), row.operation.c_str(),
                     row.made_by.c_str(), group.size(), result));
  }
  RETURN_IF_ERROR(table.Save());
  return all_right;
}

Result<bool> Measure(const Groups& groups, const BenchOptions& options) {
  ProcessGroup& group = *groups.gloo;
  Table table(group.rank() == 0, options.csv,
              "operation,made_by,ranks,bytes,rounds,min_us,median_us,max_us,mb_per_s,right");
  table.Row(Format("%-17s %-20s %8s %9s %9s %9s %8s", "operation", "made by", "size", "min us",
                   "median", "max", "MB/s"),
            "");
  bool all_right = true;
  struct Part {
    decltype(&MeasureSends) measure;
    ProcessGroup* measured;
    const char* name;
  };
  for (const auto& [measure, measured, name] :
       {Part{MeasureSends, &group, kGloo}, Part{MeasureReductions, &group, kGloo},
        Part{MeasureReductions, groups.shared.get(), groups.shared_name()},
        Part{MeasureReductions, groups.nccl.get(), kNccl}}) {
    for (const std::int64_t bytes : options.bytes) {
      if (measured == nullptr) {
        continue;
      }
      ASSIGN_OR_RETURN(const std::vector<Measured> rows,
                       measure(*measured, name, bytes, options.rounds));
      for (const Measured& row : rows) {
        all_right = all_right && row.right;
        table.Row(Format("%-17s %-20s %8s %9.1f %9.1f %9.1f %8.1f%s", row.operation.c_str(),
                         row.made_by.c_str(), SizeText(bytes).c_str(), row.least(), row.median(),
                         row.most(), row.megabytes_per_second(), row.right ? "" : "  WRONG"),
                  Format("\"%s\",\"%s\",%u,%lld,%zu,%.2f,%.2f,%.2f,%.2f,%s", row.operation.c_str(),
                         row.made_by.c_str(), group.size(), static_cast<long long>(bytes),
                         row.microseconds.size(), row.least(), row.median(), row.most(),
                         row.megabytes_per_second(), row.right ? "right" : "WRONG"));
      }
    }
  }
  RETURN_IF_ERROR(table.Save());
  return all_right;
}

// Where each rank has a GPU, which every rank finds out for itself.
Result<void> JoinNccl(const WorkerEnv& env, const BenchOptions& options, GroupOptions group_options,
                      Groups& groups) {
  ASSIGN_OR_RETURN(group_options.device,
                   OpenDevice(*ParseDevice(options.device), BackendChoice::kAuto, env));
  double have = group_options.device.plugin ? 1 : 0;
  RETURN_IF_ERROR(groups.gloo->Sum(std::span(&have, 1)));
  if (have == 0) {
    return {};
  }
  if (have < env.world_size) {
    return Error{ErrorKind::kInvalid, "only " + std::to_string(static_cast<int>(have)) + " of " +
                                          std::to_string(env.world_size) +
                                          " ranks have a GPU. Set --device=cpu to leave NCCL out"};
  }
  group_options.backend = BackendChoice::kNccl;
  group_options.name = kNccl;
  ASSIGN_OR_RETURN(groups.nccl, ProcessGroup::Join(env, group_options));
  return {};
}

int Main(int argc, char** argv) {
  const auto parsed = ParseBench(argc, argv);
  if (const auto* const early = std::get_if<EarlyExit>(&parsed)) {
    std::fputs(early->text.c_str(), early->code == kExitOk ? stdout : stderr);
    return early->code;
  }
  const auto& options = std::get<BenchOptions>(parsed);
  StartLog("ddprun-bench-comm", LogLevel::kInfo);
  const Result<WorkerEnv> env = FromEnvironment(GetProcessEnv);
  if (!env) {
    EndAtOnce(env.error());
  }
  if (env->world_size < 2) {
    EndAtOnce({ErrorKind::kInvalid,
               "this needs two ranks or more, as in ddprun --nproc-per-node=2 ddprun-bench-comm"});
  }
  SetThreads(1);
  GroupOptions group_options;
  group_options.timeout = *DurationOf(options.collective_timeout);
  group_options.interface = GlooInterface();
  Groups groups;
  for (const auto& [backend, group] : {std::pair(BackendChoice::kGloo, &groups.gloo),
                                       std::pair(BackendChoice::kAuto, &groups.shared)}) {
    group_options.backend = backend;
    group_options.name = backend == BackendChoice::kGloo ? "gloo" : "auto";
    Result<std::unique_ptr<ProcessGroup>> joined = ProcessGroup::Join(*env, group_options);
    if (!joined) {
      EndAtOnce(joined.error());
    }
    *group = *std::move(joined);
  }
  if (groups.shared->backend() == "gloo") {
    groups.shared.reset();
  }
  if (Result<void> joined = JoinNccl(*env, options, group_options, groups); !joined) {
    EndAtOnce(joined.error());
  }
  const Result<bool> right = (options.check ? Check : Measure)(groups, options);
  if (!right) {
    EndAtOnce(right.error());
  }
  if (!*right) {
    Log(LogLevel::kError, "a result is wrong: see WRONG in the table");
    return kExitWrong;
  }
  return kExitOk;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  return ddprun::Main(argc, argv);
}

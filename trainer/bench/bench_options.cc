#include "trainer/bench/bench_options.h"

#include <CLI/CLI.hpp>

#include "trainer/device/choose_device.h"

namespace ddprun {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

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
  if (options.collective_timeout < 1 || options.collective_timeout > 86'400) {
    problems.push_back("--collective-timeout must be 1 to 86400 seconds, not " +
                       std::to_string(options.collective_timeout));
  }
  return problems;
}

}  // namespace

std::variant<BenchOptions, EarlyExit> ParseBench(int argc, const char* const* argv) {
  BenchOptions options;
  CLI::App app(
      "Measures what communication between ranks costs, and checks every collective.\n"
      "Run it under ddprun or torchrun with two ranks or more:\n"
      "  ddprun --nproc-per-node=2 ddprun-bench-comm",
      "ddprun-bench-comm");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_flag("--check", options.check,
               "Check every collective with every operation, instead of measuring");
  app.add_option("--bytes", options.bytes, "Message sizes")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Times each is measured")->capture_default_str();
  app.add_option("--csv", options.csv, "Write the table to this file too");
  app.add_option("--device", options.device,
                 "auto, cpu, cuda or cuda:N: on GPUs NCCL is measured and checked too")
      ->capture_default_str();
  app.add_option("--collective-timeout", options.collective_timeout,
                 "Seconds after which a silent peer counts as lost")
      ->capture_default_str();
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

}  // namespace ddprun

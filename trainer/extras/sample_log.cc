#include "trainer/extras/sample_log.h"

#include <string>
#include <utility>

#include "common/log.h"

namespace ddprun {

Result<SampleLog> SampleLog::Open(const std::filesystem::path& directory, const WorkerEnv& env) {
  SampleLog log;
  if (directory.empty()) {
    return log;
  }
  const std::string name = "generation-" + std::to_string(env.generation.value) + ".rank-" +
                           std::to_string(env.rank) + ".jsonl";
  ASSIGN_OR_RETURN(
      log.lines_.emplace(),
      LineFile::Open(directory / name,
                     {.what = "sample log", .flag = "--sample-log", .make_directory = true}));
  return log;
}

void SampleLog::Append(std::uint64_t epoch, std::uint64_t step,
                       std::span<const std::uint32_t> samples) {
  if (!lines_) {
    return;
  }
  std::string line = R"({"epoch":)" + std::to_string(epoch) + R"(,"step":)" + std::to_string(step) +
                     R"(,"samples":[)";
  for (const std::uint32_t sample : samples) {
    line += std::to_string(sample) + ",";
  }
  if (!samples.empty()) {
    line.pop_back();
  }
  if (const Result<void> written = lines_->Append(line + "]}\n"); !written) {
    Log(LogLevel::kWarning, written.error().message + "; no more of the sample log is written");
    lines_.reset();
  }
}

void SampleLog::Finish() {
  if (lines_) {
    lines_->Finish();
  }
}

}  // namespace ddprun

#include "trainer/sample_log.h"

#include <fcntl.h>

#include <cerrno>
#include <string>
#include <utility>

namespace ddprun {

Result<SampleLog> SampleLog::Open(const std::filesystem::path& directory, const WorkerEnv& env) {
  SampleLog log;
  if (directory.empty()) {
    return log;
  }
  RETURN_IF_ERROR(MakeDirectories(directory, 0755));
  log.path_ = directory / ("generation-" + std::to_string(env.generation.value) + ".rank-" +
                           std::to_string(env.rank) + ".jsonl");
  log.fd_ = UniqueFd(open(log.path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.fd_) {
    return SystemError("write the sample log (--sample-log)", log.path_.string(), errno);
  }
  return log;
}

Result<void> SampleLog::Append(std::uint64_t epoch, std::uint64_t step,
                               std::span<const std::uint32_t> samples) {
  if (!fd_) {
    return {};
  }
  std::string line = R"({"epoch":)" + std::to_string(epoch) + R"(,"step":)" + std::to_string(step) +
                     R"(,"samples":[)";
  for (const std::uint32_t sample : samples) {
    line += std::to_string(sample) + ",";
  }
  if (!samples.empty()) {
    line.pop_back();
  }
  return WriteAll(fd_.get(), line + "]}\n", path_);
}

}  // namespace ddprun

// Finds the processes of one test by an environment variable that all of them inherit, and waits
// for conditions without sleeping blindly.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ddprun::testing {

// Sets DDPRUN_TEST_MARK, unique to this object, in the test's own environment. Each process that is
// started from then on carries it, in any session. Processes that are left at the end are killed.
class ProcessMark {
 public:
  ProcessMark();
  ~ProcessMark();
  ProcessMark(const ProcessMark&) = delete;
  ProcessMark& operator=(const ProcessMark&) = delete;

  // Living processes that carry the mark; zombies have no environment and are left out.
  std::vector<pid_t> Living() const;

 private:
  std::string assignment_;
};

// Looks every millisecond until the condition holds; false: it did not within the limit.
bool Eventually(const std::function<bool()>& condition,
                std::chrono::milliseconds limit = std::chrono::seconds(10));

std::string ReadText(const std::filesystem::path& path);

}  // namespace ddprun::testing

#include "tests/support/marked.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

namespace ddprun::testing {

namespace fs = std::filesystem;

ProcessMark::ProcessMark() {
  static std::atomic<int> next = 0;
  const std::string value = std::to_string(::getpid()) + "." + std::to_string(next++);
  ::setenv("DDPRUN_TEST_MARK", value.c_str(), 1);
  assignment_ = "DDPRUN_TEST_MARK=" + value;
}

ProcessMark::~ProcessMark() {
  for (const pid_t pid : Living()) {
    ::kill(pid, SIGKILL);
  }
  ::unsetenv("DDPRUN_TEST_MARK");
}

std::vector<pid_t> ProcessMark::Living() const {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    const std::string environment = '\0' + ReadText(entry.path() / "environ");
    if (environment.find('\0' + assignment_ + '\0') != std::string::npos) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

bool Eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::string ReadText(const fs::path& path) {
  // Not by istreambuf_iterator: that throws where a file of /proc is of a process that just ended.
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace ddprun::testing

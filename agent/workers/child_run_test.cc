#include "agent/workers/child_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

#include "common/files.h"

namespace ddprun {
namespace {

WorkerSpec Shell(const std::string& script) {
  WorkerSpec spec;
  spec.command.file = "/bin/sh";
  spec.command.argv = {"sh", "-c", script};
  spec.environment = ProcessEnvironment();
  spec.helper = true;
  return spec;
}

// Waits until the process `pid` is gone, or a zombie: another process reaps it.
void ExpectGone(const std::string& pid) {
  const auto lives = [&] {
    const auto stat = ReadFile("/proc/" + pid + "/stat", 4'096);
    return stat && stat->substr(stat->rfind(')')).find(") Z") != 0;
  };
  while (lives()) {
    std::this_thread::yield();
  }
}

// A tool's wrapper is a shell whose children this process cannot reap: it is not their subreaper.
TEST(ChildRun, NothingOfItsGroupIsLeftAtItsEndOrAtItsLimit) {
  for (const char* const end : {"exit 0", "wait", "exec sleep 1000"}) {
    std::string printed;
    const auto status =
        ChildRun().Run(Shell("sleep 1000 & echo $! && " + std::string(end)),
                       {.limit = Duration{300}, .output = [&](int, std::string_view bytes) {
                          printed += bytes;
                          return true;
                        }});
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(status->has_value(), end == std::string("exit 0"));
    ASSERT_TRUE(printed.ends_with('\n')) << end;
    ExpectGone(printed.substr(0, printed.size() - 1));
  }
}

}  // namespace
}  // namespace ddprun

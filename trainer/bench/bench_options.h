// ddprun-bench-comm's command line as one value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "trainer/options/command_line.h"

namespace ddprun {

struct BenchOptions {
  bool check = false;  // Every collective once, instead of timings.
  std::vector<std::int64_t> bytes = {4, 1 << 10, 16 << 10, 256 << 10, 4 << 20};
  std::int64_t rounds = 30;
  std::filesystem::path csv;  // Empty: none.
  std::int64_t collective_timeout = 60;
  std::string device = "auto";  // Where there is a GPU for each rank, NCCL is looked at too.
};

std::variant<BenchOptions, EarlyExit> ParseBench(int argc, const char* const* argv);

}  // namespace ddprun

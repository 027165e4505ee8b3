// What anybody says who listens where NCCL's RAS should.
#include <algorithm>

#include "agent/watch/nccl_ras.h"
#include "common/check.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  FuzzInput input(data, size);
  const std::uint32_t world = input.Byte();
  const Result<RasAnswer> answer = ParseRas(input.DeepText());
  if (!answer) {
    return 0;
  }
  MayBeAskedOften(answer->version);
  for (const std::string& line : GroupsInWords(*answer, world)) {
    CHECK(std::ranges::none_of(line, [](char c) { return static_cast<unsigned char>(c) < ' '; }));
  }
  const auto progress = ProgressThatDiffers(*answer, world);
  const bool waits =
      std::ranges::any_of(progress, [](const auto& entry) { return entry.second.waits; });
  CHECK(progress.empty() || waits);  // A difference, and who is ahead.
  return 0;
}

// Any output of a worker, in pieces of any size, under --progress-from=auto or an expression.
#include <algorithm>

#include "agent/workers/progress_lines.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  static const auto automatic = ProgressForms::Make("auto");
  FuzzInput input(data, size);
  const std::size_t least = 1u + input.Byte();
  const bool own = input.Byte() % 4 == 0;
  // Each piece costs what its line has so far, and RE2 takes milliseconds for a line where an
  // expression is too large for its table: both are bounded, and so is how many of them one input
  // may have, or libFuzzer calls it too slow.
  const std::string text = input.DeepText().substr(0, own ? 16'384 : std::string::npos);
  const std::size_t piece = std::max(least, text.size() / 4096);
  const auto forms =
      own ? ProgressForms::Make(text.substr(0, std::min<std::size_t>(text.find('\n'), 40)))
          : automatic;
  if (!forms) {
    return 0;
  }
  ProgressCount count;
  ProgressLines lines(*forms);
  std::uint64_t before = 0;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    lines.Feed(std::string_view(text).substr(at, piece), count);
    CHECK(count.counted() >= before);  // It only grows.
    before = count.counted();
  }
  return 0;
}

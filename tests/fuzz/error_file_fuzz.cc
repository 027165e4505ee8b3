// The error file of a dying worker, and any bytes in the watchdog's pipe.
#include "agent/watch/error_file.h"
#include "agent/watch/timer_request.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  const std::string text = FuzzInput(data, size).DeepText();
  const std::optional<WorkerError> error = ParseErrorFile(text);
  const std::optional<std::string> coded = WithErrorCode(text, 3);
  CHECK(!error || coded);  // Each error of a worker is a JSON object.
  if (error) {
    const std::optional<WorkerError> again = ParseErrorFile(*coded);
    CHECK(again && again->message == error->message);
  }
  ParseTimerRequest(text);
  return 0;
}

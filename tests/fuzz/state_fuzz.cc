// A checkpoint's state.json.
#include "tests/fuzz/fuzz_input.h"
#include "trainer/checkpoint/snapshot.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  const auto state = StateFileFromJson(FuzzInput(data, size).RestText(), "state.json");
  if (!Taken(state)) {
    return 0;
  }
  const std::string written = ToJson(*state);
  const Result<StateFile> again = StateFileFromJson(written, "again");
  CHECK(again);
  CHECK(ToJson(*again) == written);
  return 0;
}

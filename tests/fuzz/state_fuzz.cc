// A checkpoint's state.json.
#include "common/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "trainer/checkpoint/snapshot.h"

namespace {

using namespace ddprun;

void ReadState(const std::string& text) {
  const Result<StateFile> state = StateFileFromJson(text, "state.json");
  if (!state) {
    CHECK(!state.error().message.empty());
    return;
  }
  const std::string written = ToJson(*state);
  const Result<StateFile> again = StateFileFromJson(written, "again");
  CHECK(again);
  CHECK(ToJson(*again) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ReadState(FuzzInput(data, size).RestText());
  return 0;
}

// A checkpoint's state.json and the record of the best one.
#include "common/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "trainer/checkpoint/best_record.h"
#include "trainer/checkpoint/memory_file_system_testing.h"
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

void ReadBestRecord(const std::string& text) {
  MemoryFileSystem files;
  const std::filesystem::path directory = "/checkpoints";
  CHECK(files.MakeDirectory(directory));
  CHECK(files.Write(directory / "best.json", {text}));
  const Result<std::optional<CheckpointRef>> best = ReadBest(files, directory);
  if (best && *best) {
    CHECK(IsCheckpointName((*best)->directory));
    CHECK(WriteBest(files, directory, **best, WorldId{1}));
    const Result<std::optional<CheckpointRef>> again = ReadBest(files, directory);
    CHECK(again && *again && **again == **best);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  if (input.Byte() % 2 == 0) {
    ReadState(input.RestText());
  } else {
    ReadBestRecord(input.RestText());
  }
  return 0;
}

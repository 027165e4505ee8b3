// The fence log of a checkpoint directory: single records, and whole logs in which some are damaged
// or forged, read, claimed, written to and pruned.
#include "tests/fuzz/fuzz_input.h"
#include "trainer/checkpoint/digest.h"
#include "trainer/checkpoint/fence_log.h"
#include "trainer/checkpoint/memory_file_system_testing.h"

namespace {

using namespace ddprun;

const std::filesystem::path kDirectory = "/checkpoints";

void ReadRecord(const std::string& text) {
  const Result<FenceRecord> record = FenceRecordFromText(text, 7, "fence-7");
  if (!Taken(record)) {
    return;
  }
  CHECK(record->number == 7 && record->lineage.size() <= kMaxLineage);
  for (const CheckpointRef& ref : record->lineage) {
    CHECK(ref.directory.find('/') == std::string::npos);
  }
  CHECK(!record->best || IsCheckpointName(record->best->directory));
  const Result<FenceRecord> again = FenceRecordFromText(ToText(*record), 7, "fence-7");
  CHECK(again);
  CHECK(*again == *record);
}

std::string WithDigest(std::string line) {
  line += "\n";
  return line + Hex(Digest(line)) + "\n";
}

void UseLog(const std::vector<std::string>& pieces, bool others_live) {
  MemoryFileSystem files;
  CHECK(files.MakeDirectory(kDirectory));
  std::uint64_t number = 0;
  for (const std::string& piece : pieces) {
    const bool whole = piece.empty() || piece.front() != '!';
    const std::string text = whole ? WithDigest(piece) : piece.substr(1);
    CHECK(files.Write(kDirectory / ("fence-" + std::to_string(++number)), {text}));
  }
  FenceLog log(files, kDirectory);
  std::vector<std::string> warnings;
  const Result<std::optional<FenceRecord>> before = log.Newest(warnings);
  CHECK(before);

  const Writer writer = MakeWriter("run", {3}, {4}, {5});
  const Liveness liveness{[&](const FenceRecord&) -> Result<bool> { return others_live; }, [] {}};
  const Result<FenceRecord> claimed = log.Claim(writer, liveness, warnings);
  if (!claimed) {
    const Result<std::optional<FenceRecord>> after = log.Newest(warnings);
    CHECK(after && *after == *before);  // A refused writer changed nothing.
    return;
  }
  // No training's checkpoints are hidden.
  CHECK(!*before || (claimed->lineage == (**before).lineage && claimed->best == (**before).best));
  CHECK(log.CheckMine(writer));
  const CheckpointRef head{"step-00000100-0000000000000005", 17};
  const Result<FenceRecord> committed = log.Commit(writer, {head});
  CHECK(committed);
  log.Prune();
  const Result<std::optional<FenceRecord>> newest = log.Newest(warnings);
  CHECK(newest && *newest && (**newest) == *committed);
  CHECK(log.Close(writer));
  CHECK(!log.Commit(writer, {head}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const std::uint8_t kind = input.Byte();
  switch (kind % 3) {
    case 0:
      ReadRecord(input.RestText());
      break;
    case 1:
      ReadRecord(WithDigest(input.RestText()));
      break;
    default:
      UseLog(input.Pieces("\n"), kind % 2 == 0);
      break;
  }
  return 0;
}

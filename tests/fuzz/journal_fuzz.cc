// The journal that a server finds: its records, and the file around them, torn and damaged
// anywhere.
#include "rendezvous/journal_file.h"

#include <unistd.h>

#include <fstream>

#include <google/protobuf/stubs/logging.h>

#include "tests/fuzz/fuzz_input.h"
#include "tests/support/scratch_directory.h"

namespace {

using namespace ddprun;

void ReadRecord(const std::string& bytes) {
  const Result<JournalEntry> entry = DecodeEntry(bytes);
  if (!entry) {
    CHECK(!entry.error().message.empty());
    return;
  }
  const std::string written = Encode(*entry);
  const Result<JournalEntry> again = DecodeEntry(written);
  CHECK(again);
  CHECK(Encode(*again) == written);
}

// Written apart from the reader, so that both cannot share one mistake.
std::string Framed(const std::string& payload) {
  std::uint32_t crc = ~0u;
  for (const char c : payload) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
    }
  }
  std::string out("\xddRu\n");
  for (const std::uint32_t number : {static_cast<std::uint32_t>(payload.size()), ~crc}) {
    for (int shift = 0; shift < 32; shift += 8) {
      out.push_back(static_cast<char>(number >> shift));
    }
  }
  return out + payload;
}

// Whatever is there: refused and left alone, or read; then it is a sound journal after one append.
void ReadWhole(const std::string& bytes) {
  static const ScratchDirectory scratch(std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp");
  const std::filesystem::path path = scratch.path() / "journal";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  std::size_t runs = 0;
  {
    JournalContents found;
    Result<JournalFile> journal = JournalFile::Open(path, found);
    if (!journal) {
      CHECK(ReadFile(path, bytes.size() + 1).value() == bytes);
      return;
    }
    runs = found.runs.size();
    CHECK(journal->Append(Reign{found.term}));
  }
  JournalContents found;
  CHECK(JournalFile::Open(path, found));
  CHECK(found.remarks.empty());
  CHECK(found.runs.size() == runs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto silenced = google::protobuf::SetLogHandler(nullptr);
  static_cast<void>(silenced);
  FuzzInput input(data, size);
  switch (input.Byte() % 3) {
    case 0:
      ReadRecord(input.RestText());
      break;
    case 1:
      ReadWhole(input.RestText());
      break;
    default: {  // Sound frames around whatever: else a checksum would hide the rest.
      std::string file = "ddprun journal 1\n";
      for (const std::string& piece : input.Pieces("\xff\xfe")) {
        file += Framed(piece);
      }
      ReadWhole(file);
      break;
    }
  }
  return 0;
}

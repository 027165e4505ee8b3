// A checkpoint's tensors as a foreign file may have them. A file that is taken is written back and
// read as the same.
#include "trainer/checkpoint/safetensors.h"

#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace ddprun;

void Read(const std::string& bytes) {
  const Bytes file(bytes);
  const Result<SafetensorsFile> read = ParseSafetensors(file, "model.safetensors");
  if (!Taken(read)) {
    return;
  }
  const std::string header = SafetensorsHeader(read->tensors, read->metadata);
  std::string written;
  for (const std::string_view part : SafetensorsParts(header, read->tensors)) {
    written += part;
  }
  const Result<SafetensorsFile> again = ParseSafetensors(Bytes(written), "again");
  CHECK(again);
  CHECK(again->tensors == read->tensors && again->metadata == read->metadata);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const std::uint8_t kind = input.Byte();
  if (kind == 0) {
    Read(input.RestText());
    return 0;
  }
  // The header with its right length, and as many bytes of tensors as `kind` says.
  const std::string header = input.DeepText();
  std::string file;
  for (int shift = 0; shift < 64; shift += 8) {
    file.push_back(static_cast<char>(std::uint64_t{header.size()} >> shift));
  }
  Read(file + header + std::string(kind - 1, 'x'));
  return 0;
}

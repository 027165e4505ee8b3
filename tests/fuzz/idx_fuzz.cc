// An IDX file, plain or packed, that claims more or less than it holds.
#include "trainer/data/idx.h"

#include <sys/mman.h>
#include <unistd.h>

#include "common/files.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  FuzzInput input(data, size);
  const std::size_t dimensions = input.Byte() % 4 + 1;
  const UniqueFd file(::memfd_create("idx", MFD_CLOEXEC));
  CHECK(file);
  CHECK(WriteAll(file.get(), input.Rest(), "idx"));
  const Result<IdxArray> array = ReadIdx("/proc/self/fd/" + std::to_string(file.get()), dimensions);
  if (!Taken(array)) {
    return 0;
  }
  CHECK(array->dimensions.size() == dimensions);
  std::size_t promised = 1;
  for (const std::uint32_t dimension : array->dimensions) {
    promised *= dimension;
  }
  CHECK(array->bytes.size() == promised && promised > 0);
  std::uint32_t sum = 0;
  for (const std::uint8_t byte : array->bytes) {  // Every byte is there.
    sum += byte;
  }
  CHECK(sum <= promised * 255);
  return 0;
}

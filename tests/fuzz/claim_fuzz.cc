// The claims that candidates find in a shared run directory.
#include "rendezvous/failover/claim_directory.h"

#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  const Result<Claim> claim = DecodeClaim(FuzzInput(data, size).RestText(), 4);
  if (!Taken(claim)) {
    return 0;
  }
  CHECK(claim->number == 4);
  const Result<Claim> again = DecodeClaim(Encode(*claim), 4);
  CHECK(again);
  CHECK(*again == *claim);
  return 0;
}

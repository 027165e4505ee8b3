// Any bytes that a process of a worker may write to its step page: pages as bytes, one after the
// other, and before each how far a datagram says that it is to be read.
#include "agent/watch/step_page.h"

#include <algorithm>
#include <cstring>

#include "common/check.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  std::string_view rest = FuzzInput(data, size).Rest();
  StepPage page;
  StepReader reader;
  std::optional<std::uint64_t> told;
  while (rest.size() > sizeof(std::uint64_t)) {
    std::uint64_t most = 0;
    rest.copy(reinterpret_cast<char*>(&most), sizeof most);
    rest.remove_prefix(sizeof most);
    // All but the first bytes are as they were.
    const std::size_t changed = std::min(rest.size(), sizeof page);
    std::memcpy(static_cast<void*>(&page), rest.data(), changed);
    rest.remove_prefix(changed);
    const bool news = reader.News(page).has_value();
    const std::optional<WorkerWord> said = reader.Read(page, most);
    if (!said) {
      continue;
    }
    CHECK(news);
    CHECK(said->step && (!told || *said->step > *told));
    CHECK(std::any_of(std::begin(page.entries), std::end(page.entries),
                      [&](const StepEntry& entry) { return entry.step == *said->step; }));
    CHECK(!said->ready && !said->phase && !said->extend);
    told = said->step;
  }
  return 0;
}

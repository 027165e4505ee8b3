// Any bytes that a process of a worker may send to the agent's notify socket.
#include "proto/notify.h"

#include <algorithm>

#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  const std::string_view datagram = FuzzInput(data, std::min(size, kMaxNotifyBytes)).Rest();
  const Notification notification = ParseNotification(datagram);
  if (notification.phase) {
    CHECK(notification.phase->size() <= 64);
    CHECK(std::all_of(notification.phase->begin(), notification.phase->end(),
                      [](char c) { return c >= ' ' && c <= '~'; }));
  }
  CHECK(!notification.block || notification.block->empty() || IsBlockName(*notification.block));
  CHECK(!notification.ready || datagram.find("READY") != std::string_view::npos);
  CHECK(!notification.step || datagram.find("STEP") != std::string_view::npos);
  return 0;
}

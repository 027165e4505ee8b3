// For tests: runs a loop on the test's own thread until something is so, for a bounded time.
#pragma once

#include <chrono>

#include "common/asio_loop.h"

namespace ddprun {

template <class Condition>
bool PumpUntil(AsioLoop& loop, const Condition& condition,
               Duration bound = std::chrono::seconds(10)) {
  const Time end = loop.Now() + bound;
  while (!condition()) {
    if (loop.Now() > end) {
      return false;
    }
    loop.io().run_one_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace ddprun

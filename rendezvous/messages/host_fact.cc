#include "rendezvous/messages/host_fact.h"

namespace ddprun {

std::optional<ClockOffset> OffsetOf(std::int64_t sent, std::int64_t received, std::int64_t answered,
                                    std::int64_t heard) {
  if (sent <= 0 || received <= 0 || answered < received || heard < sent) {
    return std::nullopt;
  }
  const std::int64_t on_the_way = (heard - sent) - (answered - received);
  if (on_the_way < 0) {
    return std::nullopt;
  }
  // As if both ways took as long.
  const std::int64_t there = received - sent;
  const std::int64_t back = answered - heard;
  return ClockOffset{there / 2 + back / 2 + (there % 2 + back % 2) / 2, on_the_way / 2 + 1};
}

}  // namespace ddprun

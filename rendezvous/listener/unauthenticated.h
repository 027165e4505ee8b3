// Connections without an accepted call, and which of them is evicted for a new one if there are too
// many. Each costs the server two descriptors and 96 KiB, and its peer two bytes of a hello.
//
// One of the address that has most is evicted, so that an address that floods evicts its own. If no
// address has more than the newcomer's, the oldest one is evicted, provided that it has had its
// time. Otherwise none is, and the newcomer must come again: ten thousand nodes that come at once
// would evict each other for ever.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/time.h"

namespace ddprun {

// A younger connection is evicted only for another address: a handshake takes so long on a busy
// server.
inline constexpr Duration kLeastAgeToEvict{2'000};

class UnauthenticatedConnections {
 public:
  using Number = std::uint64_t;  // In order of coming; never used again.

  void Add(Number number, const std::string& address, Time now);
  // False: it is none.
  bool Remove(Number number);
  std::size_t size() const { return all_.size(); }
  // The oldest one, if it came by then.
  std::optional<Number> Since(Time then) const;
  // The next in turn after one that is here or not. Not where there are none.
  Number After(Number number) const;

  // The connection to close for a newcomer of this address; nullopt: none.
  std::optional<Number> ToEvict(const std::string& address, Time now) const;

 private:
  struct Connection {
    std::string address;
    Time since;
  };
  void Count(const std::string& address, Number number, bool here);

  std::map<Number, Connection> all_;
  std::map<std::string, std::set<Number>> of_address_;
  std::set<std::pair<std::size_t, std::string>> crowds_;  // Of each address, how many.
};

}  // namespace ddprun

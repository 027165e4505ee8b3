// Who of those that have made no call yet makes room for another one, where there are too many:
// each takes two descriptors and 64 KiB of a server for two bytes of a hello.
//
// One of the address that has most, so that who floods pushes out its own. Where none has more than
// the newcomer's, one that has had its time; else nobody does, and the newcomer must come again, or
// ten thousand nodes that come at once would push each other out for ever.
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

// Nobody is pushed out by its own before: a handshake takes so long on a busy server.
inline constexpr Duration kStrangersTime{2'000};

class Strangers {
 public:
  using Number = std::uint64_t;  // In order of coming; never used again.

  void Add(Number number, const std::string& address, Time now);
  // False: it is none.
  bool Remove(Number number);
  std::size_t size() const { return all_.size(); }
  // The next in turn after one that is here or not. Not where there are none.
  Number After(Number number) const;

  // For a newcomer of this address; nullopt: nobody.
  std::optional<Number> WhoMakesRoom(const std::string& address, Time now) const;

 private:
  struct Stranger {
    std::string address;
    Time since;
  };
  void Count(const std::string& address, Number number, bool here);

  std::map<Number, Stranger> all_;
  std::map<std::string, std::set<Number>> of_address_;
  std::set<std::pair<std::size_t, std::string>> crowds_;  // Of each address, how many.
};

}  // namespace ddprun

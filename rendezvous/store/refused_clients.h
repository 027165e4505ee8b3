// Clients that the store refuses for what they are (allow_list.h), counted by where they come from.
//
// A node of the run asks the store with Question() whether it is one of these. The answer says how
// its connections look here, how many clients were refused for the same reason, and what
// --store-allow must name. A client learns nothing but about itself, so the answer is no secret.
//
// No byte of a refused client reaches the store. Each is kept until its first bytes come, a second
// at most, and kMostKept of them at once. On the loop.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/asio_loop.h"
#include "common/lifetime.h"

namespace ddprun {

struct Refusal {
  std::string allow;        // The value for --store-allow: an address, or any.
  std::uint64_t count = 0;  // Clients of a store that were refused alike; the asker is none.
  std::string why;
};

// VALIDATE and a PING that no client sends: torch's has its process's number in it. A client that
// is let in gets its number back.
std::string RefusalQuestion();

// Nothing: these are not the words of a store that refuses its client.
std::optional<Refusal> ReadRefusal(std::string_view answer);

class RefusedClients {
 public:
  static constexpr std::size_t kMostKept = 64;
  static constexpr std::size_t kMostCounted = 256;  // Of places; others are not counted.
  static constexpr Duration kPatience{1'000};

  explicit RefusedClients(AsioLoop& loop) : loop_(loop), expiry_(loop) {}

  void Take(boost::asio::ip::tcp::socket socket, std::string allow, std::string why);

 private:
  struct Kept {
    boost::asio::ip::tcp::socket socket;
    std::string allow;
    std::string why;
    std::string read;
    Time until;
  };

  void OnReadable(std::uint64_t id);
  void Count(const Kept& kept);
  void Answer(Kept& kept);
  void Expire();

  AsioLoop& loop_;
  LoopTimer expiry_;
  std::map<std::uint64_t, Kept> kept_;  // The oldest first.
  std::uint64_t last_ = 0;
  std::map<std::string, std::uint64_t> counts_;  // By what is to be allowed, and why.
  const Lifetime life_;
};

}  // namespace ddprun

// The names of things, each a type of its own, so that mixing them does not compile.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>

namespace ddprun {

template <class Tag>
struct Number {
  std::uint64_t value = 0;
  auto operator<=>(const Number&) const = default;
  Number Next() const { return {value + 1}; }
};

// One attempt of a world to run; larger than every earlier one of the run. 0: none yet.
// Continues from run to run of a server.
using Generation = Number<struct GenerationTag>;
// One membership of an agent: random, drawn at start and again after it was declared lost.
using Incarnation = Number<struct IncarnationTag>;
// A random name of one generation's set of nodes and ranks.
using WorldId = Number<struct WorldIdTag>;
// One server's time in office; (term, generation) orders worlds. 0: none known.
using Term = Number<struct TermTag>;

using RunId = std::string;   // One job, as --rdzv-id names it.
using NodeId = std::string;  // One agent's share of a machine, unique within a run.

std::uint64_t RandomBits();  // Of the system, for names that no other process has.

// Sixteen hexadecimal digits, as logs and file names show a world id or an incarnation.
std::string Hex(std::uint64_t value);
std::string Hex(std::span<const unsigned char> bytes);  // Two digits for each.

}  // namespace ddprun

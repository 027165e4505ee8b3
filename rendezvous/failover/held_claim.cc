#include "rendezvous/failover/held_claim.h"

#include <sstream>

#include "common/text.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {

std::string Encode(const std::optional<HeldClaim>& held) {
  if (!held) {
    return "";
  }
  std::ostringstream text;
  text << held->number << ' ' << held->term.value << ' ' << Encode(held->died);
  return text.str();
}

std::optional<HeldClaim> DecodeHeldClaim(const std::string& text) {
  std::istringstream in(text);
  HeldClaim held;
  std::string died;
  if (!(in >> held.number >> held.term.value) || in.get() != ' ' || !std::getline(in, died)) {
    return std::nullopt;
  }
  const std::optional<Died> decoded = DecodeDied(died);
  held.died = decoded.value_or(Died{});
  return decoded ? std::optional(held) : std::nullopt;
}

std::string Encode(const Died& died) {
  const std::string rank = died.group_rank ? std::to_string(*died.group_rank) : "-";
  return std::to_string(died.world.value) + " " + rank + " " +
         std::to_string(died.key.incarnation.value) + " " + died.key.node;
}

std::optional<Died> DecodeDied(const std::string& text) {
  std::istringstream in(text);
  Died died;
  std::string rank;
  const bool whole = (in >> died.world.value >> rank >> died.key.incarnation.value) &&
                     in.get() == ' ' && std::getline(in, died.key.node);
  if (!whole || died.key.node.empty() || died.key.node.size() > kMaxNameBytes) {
    return std::nullopt;
  }
  died.group_rank = ParseNumber<std::uint32_t>(rank);
  return rank == "-" || died.group_rank ? std::optional(died) : std::nullopt;
}

Result<bool> Release(Claims& claims, const HeldClaim& held) {
  ASSIGN_OR_RETURN(const std::optional<Claim> newest, claims.Newest());
  if (!newest || newest->closed || newest->number != held.number || newest->term != held.term) {
    return false;
  }
  Claim closed = *newest;
  ++closed.counter;
  closed.closed = true;
  closed.died = held.died;
  ASSIGN_OR_RETURN(const bool superseded, claims.Move(closed));
  return !superseded;
}

}  // namespace ddprun

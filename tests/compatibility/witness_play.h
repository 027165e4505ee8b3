// What the places of a list said to each other about claims, played to one of now.
//
// Requests go out as the bytes that they were, but for the list's digest and the protocol, where
// another one is wanted. What the witness answers must have in it all that the recorded answer had:
// each field under its number, of its kind, with its value, since this is what an agent of that
// release reads. Fields beside them are later ones. Not compared: whether the witness has just
// started, what it says to the one request that depends on that (to back a second claim), and what
// nobody had answered then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/compatibility/recording.h"

namespace ddprun {

inline constexpr const char* kWitness = "/ddprun.v1.Rendezvous/Witness";

// `recorded`, `list`: endpoints with commas, of the recording and of who is asked, its first place.
// 0: all was understood. `protocol`: 0 for the recorded one.
int AskWitness(const std::string& list, const std::string& recorded, const std::vector<Call>& calls,
               std::uint32_t protocol);

// As a witness that has seen the agent die which held the newest claim, and what it left; it
// accepts all that it is asked for. Empty: nothing of the kind is recorded.
std::string WitnessReplyTo(const std::string& request, const std::vector<Call>& calls);

}  // namespace ddprun

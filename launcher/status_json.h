// A run as JSON: what `ddprun status -o json` prints, and the lines of events.jsonl.
//
// Only formatting. Durations in seconds, moments in seconds since 1970; names are those of the
// tables in rendezvous/core/status.h.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "rendezvous/core/status.h"

namespace ddprun {

using OrderedJson = nlohmann::ordered_json;

// `now_unix`: seconds since 1970, for the time that the job has left.
OrderedJson RunInJson(const RunStatus& run, std::int64_t now_unix);

// Without its age, and without what it does not have.
OrderedJson EventInJson(const RunEvent& event);

// The points of the curve.
OrderedJson TrainingInJson(const std::vector<TrainingPoint>& training);

// On one line, or with `indent` spaces; bytes that are not UTF-8 are replaced.
std::string JsonText(const OrderedJson& json, int indent = -1);

}  // namespace ddprun

// Rank 0's part of a check of several nodes: hears what each has found, has them meet, and judges.
#pragma once

#include <string>

#include "launcher/check/check_report.h"
#include "launcher/check/check_socket.h"

namespace ddprun {

struct CheckLead {
  std::size_t nodes = 1;
  std::string number;  // Who does not know it is no node of this check.
  bool pairs = true;
  std::chrono::seconds patience{60};  // For a node's facts,
  std::chrono::seconds round{30};     // and for those that meet at one time.
};

// On a thread of its own. An error: a node has not answered.
Result<Checked> LeadCheck(int listener, const CheckLead& lead);

// How a node's facts travel, and back.
nlohmann::json ToJson(const CheckedNode& node);
CheckedNode NodeFromJson(const nlohmann::json& json);

}  // namespace ddprun

// Every collective with every operation, once, its result compared on every rank.
//
// Knows which are the library's and which are made of send and receive here; what the library
// refuses counts as made here where there is such a one.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/group/process_group.h"

namespace ddprun {

struct CheckedRow {
  std::string collective;
  std::string operation;  // "-": none.
  std::string made_by;  // "gloo", "built from send/recv"; or "not in ...", and nothing is checked.
  bool right = false;   // On every rank.
};

// The same rows on every rank. An error: a peer is gone.
// Of a group that shares memory only those that it has.
Result<std::vector<CheckedRow>> CheckCollectives(ProcessGroup& group, const std::string& library);

}  // namespace ddprun

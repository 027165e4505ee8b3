// The status page of a run with all that it shows in it: report.html.
//
// Pure. The very page (watching/page.html) with one block of JSON; opens from a file, asks for
// nothing and operates nothing. No word of a run ends the block.
#pragma once

#include <string>

#include "launcher/evidence/run_story.h"

namespace ddprun {

// With all events that are known.
std::string RunPage(const RunStory& story);

// Of what StateInJson made, perhaps of another server's; kInvalid: it is none.
Result<std::string> PageOfState(OrderedJson state);

}  // namespace ddprun

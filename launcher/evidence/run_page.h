// The status page of a run with all that it shows in it: report.html.
//
// The very page (watching/page.html) with one block of JSON; opens from a file, asks for
// nothing and operates nothing. No word of a run ends the block.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/evidence/run_overview.h"

namespace ddprun {

// With all events that are known.
std::string RunPage(const RunOverview& overview);

// The run as the page in this file has it, as StateInJson made it; an empty object: there is none,
// or it is no such page. Blocks.
OrderedJson RunInReport(const std::filesystem::path& file);

}  // namespace ddprun

// The entries of docs/troubleshooting.md and its two other pages, for `ddprun help SLUG`: a machine
// that runs ddprun from a wheel has no docs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// The words in brackets that messages end in, such as node-lost, in the pages' order.
std::vector<std::string> ExplainedSlugs();

// The entry of `slug` without markup, in lines of at most 100 characters; none: no message ends in
// it.
std::optional<std::string> MessageHelp(std::string_view slug);

// Each slug with its messages, one below the other.
std::string MessagesHelp();

}  // namespace ddprun

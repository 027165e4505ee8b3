// The entries of docs/troubleshooting.md and its two other pages, for `ddprun help SLUG`, and the
// pages for `ddprun help TOPIC`: a machine that runs ddprun from a wheel has no docs.
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

// The pages that help and messages name as `ddprun help TOPIC`.
std::vector<std::string> Topics();

// The page of docs/ that is named so, without links; none: there is none.
std::optional<std::string> TopicHelp(std::string_view topic);

// Each slug with its messages, one below the other.
std::string MessagesHelp();

}  // namespace ddprun

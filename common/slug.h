// Messages that docs/troubleshooting.md explains end in a slug, " [node-lost]": the anchor there.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

// `message` and then `more`, before the slug if there is one.
std::string Continue(std::string message, std::string_view more);

// For what becomes a part of another message, or is kept in a record.
std::string WithoutSlug(const std::string& message);

}  // namespace ddprun

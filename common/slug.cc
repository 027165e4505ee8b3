#include "common/slug.h"

#include <cstddef>

namespace ddprun {
namespace {

// Where the slug of `message` begins, with its space; its end: there is none.
std::size_t SlugAt(std::string_view message) {
  constexpr std::string_view kOfSlugs = "abcdefghijklmnopqrstuvwxyz0123456789-";
  const std::size_t begin = message.rfind(" [");
  const bool closed = begin != message.npos && message.ends_with(']');
  return closed && message.find_first_not_of(kOfSlugs, begin + 2) == message.size() - 1
             ? begin
             : message.size();
}

}  // namespace

std::string Continue(std::string message, std::string_view more) {
  return message.insert(SlugAt(message), more);
}

std::string WithoutSlug(const std::string& message) {
  return message.substr(0, SlugAt(message));
}

}  // namespace ddprun

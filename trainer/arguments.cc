#include "trainer/arguments.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/check.h"
#include "common/format.h"
#include "common/text.h"

namespace ddprun {
namespace {

std::string Text(double number) {
  return Format("%.12g", number);
}

std::string Known(std::span<const ArgumentEntry> known) {
  const std::string text = Joined(known, ", ", [](const ArgumentEntry& entry) {
    return std::string(entry.name) + " (" + Text(entry.standard) + ")";
  });
  return text.empty() ? "there are no arguments" : "the arguments and their defaults: " + text;
}

Result<double> ValueOf(const std::string& text, const ArgumentEntry& entry) {
  const std::optional<double> value = ParseNumber<double>(text);
  if (!value || !(*value >= entry.least && *value <= entry.most) ||
      (entry.whole && *value != std::floor(*value))) {
    return Error{ErrorKind::kInvalid, std::string(entry.name) + " must be a " +
                                          (entry.whole ? "whole number" : "number") + " from " +
                                          Text(entry.least) + " to " + Text(entry.most) +
                                          ", not '" + text + "'"};
  }
  return *value;
}

}  // namespace

Result<Arguments> Arguments::Parse(std::string_view text, std::span<const ArgumentEntry> known) {
  Arguments arguments;
  for (const ArgumentEntry& entry : known) {
    arguments.values_[std::string(entry.name)] = entry.standard;
  }
  std::set<std::string> given;
  for (const std::string& part : Split(text, ',')) {
    const std::string name = part.substr(0, part.find('='));
    const auto entry = std::ranges::find(known, name, &ArgumentEntry::name);
    if (entry == known.end() || name.size() == part.size()) {
      return Error{ErrorKind::kInvalid,
                   "'" + part + "' is not NAME=VALUE of a " + "known argument; " + Known(known)};
    }
    if (!given.insert(name).second) {
      return Error{ErrorKind::kInvalid, name + " is given twice"};
    }
    ASSIGN_OR_RETURN(arguments.values_[name], ValueOf(part.substr(name.size() + 1), *entry));
  }
  return arguments;
}

double Arguments::Number(std::string_view name) const {
  const auto found = values_.find(name);
  CHECK(found != values_.end());
  return found->second;
}

std::int64_t Arguments::Whole(std::string_view name) const {
  return static_cast<std::int64_t>(Number(name));
}

std::string Arguments::Text() const {
  return Joined(values_, ",", [](const auto& argument) {
    return argument.first + "=" + ddprun::Text(argument.second);
  });
}

}  // namespace ddprun

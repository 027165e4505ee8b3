// Numbers that one model or data set takes and the next does not: --model-arg=NAME=VALUE,...
//
// Which there are, their defaults and ranges stand in the table of the model or data set. Pure;
// an unknown name, a value out of range or a name given twice is an error that lists what is known.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "common/result.h"

namespace ddprun {

struct ArgumentEntry {
  std::string_view name;
  double standard;
  double least;
  double most;
  bool whole = true;  // Only whole numbers.
};

class Arguments {
 public:
  // "a=1,b=0.5"; empty: every default.
  static Result<Arguments> Parse(std::string_view text, std::span<const ArgumentEntry> known);

  // Aborts on a name that the table did not hold.
  double Number(std::string_view name) const;
  std::int64_t Whole(std::string_view name) const;

  // Every argument with its value, in one order: "ff=2048,layers=6". Equal texts, equal arguments.
  std::string Text() const;

 private:
  std::map<std::string, double, std::less<>> values_;
};

}  // namespace ddprun

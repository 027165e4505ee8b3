#include "common/result.h"

#include <cstring>

namespace ddprun {

Error Invalid(std::string_view what, std::string_view on) {
  return {ErrorKind::kInvalid, std::string(what) + ": '" + std::string(on) + "'"};
}

Error SystemError(std::string_view tried, std::string_view on, int error_number) {
  return {ErrorKind::kSystem, "cannot " + std::string(tried) + " '" + std::string(on) +
                                  "': " + std::strerror(error_number)};
}

}  // namespace ddprun

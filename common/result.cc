#include "common/result.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace ddprun {

Error Invalid(std::string_view what, std::string_view on) {
  return {ErrorKind::kInvalid, std::string(what) + ": '" + std::string(on) + "'"};
}

Error SystemError(std::string_view tried, std::string_view on, int error_number) {
  Error error{ErrorKind::kSystem, "cannot " + std::string(tried) + " '" + std::string(on) +
                                      "': " + std::strerror(error_number)};
  rlimit files{};
  if (error_number == EMFILE && ::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    error.message += "; ddprun may have " + std::to_string(files.rlim_cur) +
                     " open files (ulimit -n), and each worker needs up to ten. Raise the limit, "
                     "or start fewer workers on this node [descriptor-limit]";
  }
  return error;
}

}  // namespace ddprun
